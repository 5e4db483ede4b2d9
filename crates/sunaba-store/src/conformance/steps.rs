//! Steps and the events that carry them.

use serde_json::json;
use sunaba_types::{NewEvent, SandboxId, Step};

use super::World;
use super::world::{event, event_with_id, numbered};
use crate::{STEP_REACH, Writer};

fn step(tree: &str) -> Step {
    Step { tree: tree.to_owned(), parent: Some("p".to_owned()), event_id: Some("before".to_owned()) }
}

fn carrying(event_type: &str, tree: &str) -> NewEvent {
    NewEvent { step: Some(step(tree)), ..event(event_type, json!({})) }
}

async fn tree_before(world: &World, id: &SandboxId, seq: i64) -> Option<(i64, String)> {
    let found = world.store.step_before(id, seq).await.expect("it can be asked");
    found.map(|found| (found.seq, found.step.tree))
}

async fn tree_after(world: &World, id: &SandboxId, seq: i64) -> Option<(i64, String)> {
    let found = world.store.step_after(id, seq).await.expect("it can be asked");
    found.map(|found| (found.seq, found.step.tree))
}

/// The last step at or before a place, and the first after it, of one sandbox and whole.
pub async fn finds_the_step_of_a_place(world: World) {
    let (id, other) = (SandboxId::generate(), SandboxId::generate());
    let events = vec![
        event("agent.message", json!({})),
        carrying("agent.step", "one"),
        event("agent.step", json!({})),
        event("agent.message", json!({})),
        carrying("agent.step", "two"),
    ];
    world.append(&id, Writer::Registrar, events).await;
    world.append(&other, Writer::Registrar, vec![carrying("agent.step", "other")]).await;
    let at = |tree: &str, seq| Some((seq, tree.to_owned()));
    for (place, before, after) in [
        (0, None, at("one", 2)),
        (1, None, at("one", 2)),
        (2, at("one", 2), at("two", 5)),
        (4, at("one", 2), at("two", 5)),
        (5, at("two", 5), None),
        (99, at("two", 5), None),
    ] {
        assert_eq!(tree_before(&world, &id, place).await, before, "before {place}");
        assert_eq!(tree_after(&world, &id, place).await, after, "after {place}");
    }
    let whole = world.store.step_before(&id, 5).await.expect("it can be asked").expect("it is there");
    assert_eq!(whole.step, step("two"));
    assert_eq!(tree_before(&world, &SandboxId::generate(), 5).await, None);
}

/// A step of another event is found within a bound, one that comes as such however far away it is.
pub async fn finds_steps_of_other_events_nearby(world: World) {
    let id = SandboxId::generate();
    let first = vec![carrying("agent.step", "edit"), carrying("custom", "other")];
    world.append(&id, Writer::Registrar, first).await;
    world.append(&id, Writer::Operator, numbered("agent.message", 1..=STEP_REACH)).await;
    assert_eq!(tree_before(&world, &id, STEP_REACH + 1).await, Some((2, "other".to_owned())));
    assert_eq!(tree_before(&world, &id, STEP_REACH + 2).await, Some((1, "edit".to_owned())));
}

/// An event is found by its id in its own sandbox only.
pub async fn knows_the_place_of_an_event(world: World) {
    let id = SandboxId::generate();
    let events = vec![event("agent.message", json!({})), event_with_id("e-2", "agent.message", json!({}))];
    world.append(&id, Writer::Registrar, events).await;
    let find = |id: SandboxId, event: &'static str| {
        let store = &world.store;
        async move { store.find_seq(&id, event).await.expect("it can be asked") }
    };
    assert_eq!(find(id.clone(), "e-2").await, Some(2));
    assert_eq!(find(id, "e-3").await, None);
    assert_eq!(find(SandboxId::generate(), "e-2").await, None);
}
