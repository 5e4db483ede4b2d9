//! What model calls cost, under caps.

use sunaba_engine::SandboxTrigger;
use sunaba_types::{CallId, Clock as _, NodeId, ProjectSettings, Sandbox, SandboxId, Task, Terms};

use super::world::{World, new_sandbox, numbered};
use crate::{
    Error, NewSandbox, OpenCall, ProjectPatch, Reserve, Reserved, Result, Settlement, Spender, Spending,
};

fn call(sandbox: &Sandbox, least_micros: i64, most_micros: i64) -> Reserve {
    Reserve {
        sandbox_id: sandbox.id.clone(),
        attempt: sandbox.attempt,
        node_id: None,
        dialect: "anthropic".to_owned(),
        model: "large".to_owned(),
        least_micros,
        most_micros,
    }
}

fn cost(cost_micros: i64) -> Settlement {
    Settlement { cost_micros, known_by: "usage".to_owned(), ..Settlement::default() }
}

fn budget(usd: f64) -> Terms {
    Terms { budget_usd: Some(usd), ..Terms::default() }
}

/// A task and a sandbox for it that may spend so much.
async fn with_budget(world: &World, usd: f64) -> (Task, Sandbox) {
    let task = world.task().await;
    let sandbox = world.assign_on(&task.id, budget(usd)).await;
    (task, sandbox)
}

async fn cap_project(world: &World, task: &Task, usd: f64) {
    let settings = ProjectSettings { total_budget_usd: Some(usd), ..ProjectSettings::default() };
    let patch = ProjectPatch { settings: Some(settings), ..ProjectPatch::default() };
    world.store.update_project(&task.project_id, patch).await.expect("the project exists");
}

async fn reserve(world: &World, sandbox: &Sandbox, least: i64, most: i64) -> Reserved {
    world.store.reserve_call(call(sandbox, least, most)).await.expect("there is room")
}

async fn settle(world: &World, reserved: &Reserved, micros: i64) {
    assert!(world.store.settle_call(&reserved.id, cost(micros)).await.expect("up"));
}

#[track_caller]
fn assert_exhausted(refused: &Result<Reserved>, whose: &str) {
    let Err(Error::Full { code: "budget_exhausted", detail }) = refused else { panic!("{refused:?}") };
    assert!(detail.contains(whose), "{detail} names the {whose}");
}

async fn spent(world: &World, of: Spender) -> (i64, i64) {
    let sum = world.store.spending(&of).await.expect("up");
    (sum.cost_micros, sum.reserved_micros)
}

/// The most where there is room, less where there is less, nothing below the least.
pub async fn grants_between_least_and_most(world: World) {
    let (task, sandbox) = with_budget(&world, 1.0).await;
    let first = reserve(&world, &sandbox, 100, 700_000).await;
    assert_eq!((first.micros, first.left_micros), (700_000, Some(300_000)));
    let second = reserve(&world, &sandbox, 100, 700_000).await;
    assert_eq!((second.micros, second.left_micros), (300_000, Some(0)));
    assert_exhausted(&world.store.reserve_call(call(&sandbox, 1, 700_000)).await, "task");
    assert_eq!(spent(&world, Spender::Task(task.id)).await, (0, 1_000_000), "a refusal reserves nothing");
    settle(&world, &second, 0).await;
    let words = crate::no_room("task", 1_000_000, 700_000);
    assert_exhausted(&world.store.reserve_call(call(&sandbox, 300_001, 700_000)).await, &words);
    assert_eq!(reserve(&world, &sandbox, 300_000, 300_000).await.micros, 300_000, "exactly what is left");
    let free = world.assign(&world.task().await.id).await;
    let unbounded = reserve(&world, &free, 1, 5_000_000_000).await;
    assert_eq!((unbounded.micros, unbounded.left_micros), (5_000_000_000, None));
}

/// A new attempt goes on with what is left, and its own budget is the one that counts.
pub async fn caps_a_task_over_its_attempts(world: World) {
    let (task, first) = with_budget(&world, 1.0).await;
    let (paid, open) = (reserve(&world, &first, 1, 300_000).await, reserve(&world, &first, 1, 100_000).await);
    settle(&world, &paid, 250_000).await;
    world.fail_and_retry(&first.id).await;
    let second = world.assign_on(&task.id, budget(1.0)).await;
    let rest = reserve(&world, &second, 1, 10_000_000).await;
    assert_eq!(rest.micros, 650_000, "what the first spent and what it still has open is not there");
    settle(&world, &open, 40_000).await;
    assert_eq!(reserve(&world, &second, 1, 10_000_000).await.micros, 60_000, "settled after its end");
    assert_exhausted(&world.store.reserve_call(call(&second, 1, 1)).await, "task");
    let other = world.assign_on(&world.task().await.id, budget(1.0)).await;
    assert_eq!(reserve(&world, &other, 1, 10_000_000).await.micros, 1_000_000, "another task has its own");
}

/// The project's cap holds over all its tasks and is named when it is the tighter one.
pub async fn caps_a_project(world: World) {
    let (one, first) = with_budget(&world, 1.0).await;
    let (_, second) = with_budget(&world, 1.0).await;
    cap_project(&world, &one, 1.5).await;
    assert_eq!(reserve(&world, &first, 1, 900_000).await.left_micros, Some(100_000), "the task is tighter");
    let rest = reserve(&world, &second, 1, 900_000).await;
    assert_eq!((rest.micros, rest.left_micros), (600_000, Some(0)), "the project is tighter");
    assert_exhausted(&world.store.reserve_call(call(&second, 1, 1)).await, "project");
    assert_exhausted(&world.store.reserve_call(call(&first, 1, 1)).await, "project");
    let elsewhere = world.task_in(&world.project("/elsewhere").await).await;
    let free = world.assign(&elsewhere.id).await;
    assert_eq!(reserve(&world, &free, 1, 2_000_000).await.left_micros, None);
    cap_project(&world, &one, 0.0).await;
    settle(&world, &rest, 0).await;
    assert_exhausted(&world.store.reserve_call(call(&second, 1, 1)).await, "project");
}

/// Without a task the sandbox itself is what is capped.
pub async fn caps_a_sandbox_without_a_task(world: World) {
    let new = NewSandbox { terms: budget(0.5), ..new_sandbox(None) };
    let sandbox = world.store.create_sandbox(new.clone()).await.expect("a sandbox");
    let twin = world.store.create_sandbox(new).await.expect("a sandbox");
    assert_eq!(reserve(&world, &sandbox, 1, 1_000_000).await.micros, 500_000);
    assert_exhausted(&world.store.reserve_call(call(&sandbox, 1, 1)).await, "sandbox");
    assert_eq!(reserve(&world, &twin, 1, 1_000_000).await.micros, 500_000);
    assert_eq!(spent(&world, Spender::Sandbox(sandbox.id)).await, (0, 500_000));
}

/// Only the present attempt spends, and only while it runs.
pub async fn refuses_spending_without_standing(world: World) {
    let (task, first) = with_budget(&world, 1.0).await;
    let refused = async |reserve: Reserve| match world.store.reserve_call(reserve).await {
        Err(Error::Conflict { code, .. }) => code,
        other => panic!("{other:?}"),
    };
    let foreign = Reserve { attempt: first.attempt + 1, ..call(&first, 1, 2) };
    assert_eq!(refused(foreign).await, "attempt_superseded");
    world.fail_and_retry(&first.id).await;
    assert_eq!(refused(call(&first, 1, 2)).await, "sandbox_ended");
    let second = world.assign_on(&task.id, budget(1.0)).await;
    assert_eq!(refused(call(&first, 1, 2)).await, "attempt_superseded", "the word that makes it stop");
    world.step(&second.id, SandboxTrigger::Cancel).await;
    assert_eq!(refused(call(&second, 1, 2)).await, "sandbox_ended");
    let unknown = Reserve { sandbox_id: SandboxId::generate(), ..call(&first, 1, 2) };
    let unknown = world.store.reserve_call(unknown).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "sandbox", .. })), "{unknown:?}");
    assert_eq!(world.store.open_calls(None).await.expect("up"), vec![]);
    assert_eq!(spent(&world, Spender::Task(task.id)).await, (0, 0));
}

/// A call is paid once; whoever settles it again changes nothing.
pub async fn settles_once(world: World) {
    let (task, sandbox) = with_budget(&world, 1.0).await;
    let reserved = reserve(&world, &sandbox, 1, 500_000).await;
    settle(&world, &reserved, 120_000).await;
    assert!(!world.store.settle_call(&reserved.id, cost(999_999)).await.expect("up"));
    assert_eq!(spent(&world, Spender::Sandbox(sandbox.id.clone())).await, (120_000, 0));
    assert_eq!(world.get_sandbox(&sandbox.id).await.cost_micros, 120_000);
    let missing = world.store.settle_call(&CallId::generate(), cost(1)).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    // More than was reserved is still what it cost.
    let dearer = reserve(&world, &sandbox, 1, 10_000).await;
    settle(&world, &dearer, 890_000).await;
    assert_eq!(spent(&world, Spender::Task(task.id)).await, (1_010_000, 0));
    assert_exhausted(&world.store.reserve_call(call(&sandbox, 0, 1)).await, "task");
    // Whatever is told of the sandbox after this tells the same.
    let step = world.step(&sandbox.id, SandboxTrigger::Create).await;
    assert_eq!(step.cost_micros, 1_010_000);
    assert_eq!(world.get_sandbox(&sandbox.id).await, step);
}

/// What is reserved and not settled is found again, oldest first.
pub async fn lists_open_calls(world: World) {
    let (_, sandbox) = with_budget(&world, 1.0).await;
    let made = world.clock.now();
    let first = reserve(&world, &sandbox, 1, 1_000).await;
    world.pass(5);
    let second = reserve(&world, &sandbox, 1, 2_000).await;
    let open = |reserved: &Reserved, created_at| OpenCall {
        id: reserved.id.clone(),
        sandbox_id: sandbox.id.clone(),
        dialect: "anthropic".to_owned(),
        model: "large".to_owned(),
        micros: reserved.micros,
        created_at,
    };
    let both = vec![open(&first, made), open(&second, world.clock.now())];
    assert_eq!(world.store.open_calls(None).await.expect("up"), both);
    let node = NodeId::generate();
    let elsewhere = Reserve { node_id: Some(node.clone()), ..call(&sandbox, 1, 1_000) };
    let elsewhere = world.store.reserve_call(elsewhere).await.expect("room");
    let of_node = world.store.open_calls(Some(&node)).await.expect("up");
    assert_eq!(of_node.into_iter().map(|call| call.id).collect::<Vec<_>>(), vec![elsewhere.id.clone()]);
    assert_eq!(world.store.open_calls(Some(&NodeId::generate())).await.expect("up"), vec![]);
    settle(&world, &elsewhere, 1_000).await;
    settle(&world, &first, 1_000).await;
    assert_eq!(world.store.open_calls(None).await.expect("up"), both[1..]);
}

/// Sandbox, task and project each have their own sum, of tokens too.
pub async fn sums_calls(world: World) {
    let (one, first) = with_budget(&world, 10.0).await;
    let (two, neighbour) = with_budget(&world, 10.0).await;
    let settlement = |cost_micros, input_tokens| Settlement {
        cost_micros,
        input_tokens,
        output_tokens: 2,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        known_by: "usage".to_owned(),
    };
    let pay = async |sandbox: &Sandbox, micros, tokens| {
        let reserved = reserve(&world, sandbox, 1, 1_000).await;
        world.store.settle_call(&reserved.id, settlement(micros, tokens)).await.expect("up");
    };
    pay(&first, 10, 1).await;
    pay(&neighbour, 1_000, 100).await;
    world.fail_and_retry(&first.id).await;
    let second = world.assign_on(&one.id, budget(10.0)).await;
    pay(&second, 20, 2).await;
    reserve(&world, &second, 1, 500).await;
    let sum = async |of| world.store.spending(&of).await.expect("up");
    let expected = |calls, reserved_micros, cost_micros, input_tokens| Spending {
        calls,
        reserved_micros,
        cost_micros,
        input_tokens,
        output_tokens: 2 * calls,
        cache_read_tokens: 3 * calls,
        cache_write_tokens: 4 * calls,
    };
    assert_eq!(sum(Spender::Sandbox(first.id.clone())).await, expected(1, 0, 10, 1));
    assert_eq!(sum(Spender::Sandbox(second.id.clone())).await, expected(1, 500, 20, 2));
    assert_eq!(sum(Spender::Task(one.id)).await, expected(2, 500, 30, 3));
    assert_eq!(sum(Spender::Task(two.id)).await, expected(1, 0, 1_000, 100));
    assert_eq!(sum(Spender::Project(one.project_id)).await, expected(3, 500, 1_030, 103));
    let external = world.external(numbered("x", 1..=1)).await;
    assert_eq!(sum(Spender::Sandbox(external)).await, Spending::default());
    let listed = world.store.list_sandboxes(crate::SandboxFilter { limit: 10, ..Default::default() }).await;
    let costs: Vec<i64> = listed.expect("up").iter().map(|sandbox| sandbox.cost_micros).collect();
    assert_eq!(costs.iter().sum::<i64>(), 1_030, "{costs:?}");
}

/// Callers that reserve at the same moment never get more together than the caps allow.
pub async fn never_passes_a_cap_together(world: World) {
    let (one, first) = with_budget(&world, 0.6).await;
    let (_, second) = with_budget(&world, 0.6).await;
    cap_project(&world, &one, 1.0).await;
    let asking = (0..64).map(|n| {
        let store = std::sync::Arc::clone(&world.store);
        let sandbox = if n % 2 == 0 { first.clone() } else { second.clone() };
        tokio::spawn(async move {
            let reserved = store.reserve_call(call(&sandbox, 5_000, 30_000)).await;
            if let (Ok(reserved), true) = (&reserved, n % 3 == 0) {
                store.settle_call(&reserved.id, cost(reserved.micros)).await.expect("up");
            }
            reserved
        })
    });
    let (mut granted, mut refused) = (0, 0);
    for asked in asking.collect::<Vec<_>>() {
        match asked.await.expect("no panic") {
            Ok(reserved) => granted += reserved.micros,
            Err(Error::Full { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(granted, 1_000_000, "all of the project's cap and no more");
    assert!(refused > 0, "somebody found nothing left");
    let (cost, reserved) = spent(&world, Spender::Project(one.project_id)).await;
    assert_eq!(cost + reserved, 1_000_000);
    for sandbox in [&first, &second] {
        let (cost, reserved) = spent(&world, Spender::Sandbox(sandbox.id.clone())).await;
        assert!(cost + reserved <= 600_000, "{cost} + {reserved}");
        assert_eq!(world.get_sandbox(&sandbox.id).await.cost_micros, cost);
    }
}
