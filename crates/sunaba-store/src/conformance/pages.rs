//! Reading: pages, filters, cursors, the trajectory, the outline.

use serde_json::json;
use sunaba_types::{NewEvent, SandboxId};

use super::world::{World, event, event_with_id, numbered, seqs, types};
use crate::{Error, EventPage, EventQuery, Noise, TrajectoryDirection, TrajectoryPage, TrajectoryQuery};

/// a, b, c, a, b, c … all of one instant.
fn cycle(kinds: &[&str], count: usize) -> Vec<NewEvent> {
    (1..=count).map(|n| event(kinds[(n - 1) % kinds.len()], json!({"n": n}))).collect()
}

async fn page(world: &World, query: EventQuery) -> EventPage {
    world.store.list_events(query).await.expect("the sandbox exists")
}

/// Newest first, bounded, with the total.
pub async fn lists_newest_first(world: World) {
    let id = world.external(numbered("agent.message", 1..=10)).await;
    let first = page(&world, EventQuery::newest(id.clone(), 4)).await;
    assert_eq!(seqs(&first.events), vec![10, 9, 8, 7]);
    assert_eq!((first.total_count, first.next_before_seq), (10, Some(7)));
    let offset = EventQuery { offset: 8, ..EventQuery::newest(id.clone(), 4) };
    let last = page(&world, offset).await;
    assert_eq!((seqs(&last.events), last.next_before_seq), (vec![2, 1], None));
    let beyond = page(&world, EventQuery { offset: u64::MAX, ..EventQuery::newest(id, 4) }).await;
    assert_eq!((beyond.events.len(), beyond.total_count), (0, 10));
}

/// Types by name and by prefix; the total counts the wanted ones.
pub async fn filters_by_type(world: World) {
    let id = world.external(cycle(&["agent.a", "agent.b", "spec.c"], 9)).await;
    for (wanted, expected) in [
        (vec!["agent.b"], vec![8, 5, 2]),
        (vec!["agent.*"], vec![8, 7, 5, 4, 2, 1]),
        (vec!["spec.c", "agent.a"], vec![9, 7, 6, 4, 3, 1]),
        (vec!["*"], vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (vec!["none"], vec![]),
        (vec!["agent"], vec![]),
    ] {
        let event_types = wanted.iter().map(ToString::to_string).collect();
        let found = page(&world, EventQuery { event_types, ..EventQuery::newest(id.clone(), 100) }).await;
        assert_eq!(seqs(&found.events), expected, "{wanted:?}");
        assert_eq!(found.total_count, i64::try_from(expected.len()).expect("small"), "{wanted:?}");
        assert_eq!(found.next_before_seq, None, "{wanted:?}");
    }
}

/// Left-out types, alone and on top of wanted ones.
pub async fn excludes_types(world: World) {
    let id = world.external(cycle(&["agent.a", "agent.b", "spec.c"], 9)).await;
    let query = |wanted: &[&str], left_out: &[&str]| EventQuery {
        event_types: wanted.iter().map(ToString::to_string).collect(),
        exclude_types: left_out.iter().map(ToString::to_string).collect(),
        ..EventQuery::newest(id.clone(), 100)
    };
    assert_eq!(seqs(&page(&world, query(&[], &["agent.*"])).await.events), vec![9, 6, 3]);
    let both = page(&world, query(&["agent.*"], &["agent.b"])).await;
    assert_eq!((seqs(&both.events), both.total_count), (vec![7, 4, 1], 3));
    assert_eq!(page(&world, query(&[], &["*"])).await.total_count, 0);
}

/// Every page of every size at every offset is the same slice of the whole.
pub async fn pages_by_offset_with_filters(world: World) {
    let mut events = cycle(&["agent.a", "agent.b"], 21);
    events.extend(numbered("rare", 1..=2));
    events.extend(cycle(&["agent.b", "spec.c", "spec.c"], 17));
    let id = world.external(events).await;
    for wanted in [vec![], vec!["agent.a"], vec!["agent.b", "rare"], vec!["spec.*", "agent.a"]] {
        let event_types: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let base = EventQuery { event_types, ..EventQuery::newest(id.clone(), 500) };
        let whole = seqs(&page(&world, base.clone()).await.events);
        for limit in [1, 3, 10] {
            for offset in 0..=whole.len() + 1 {
                let query = EventQuery { offset: offset as u64, limit, ..base.clone() };
                let slice: Vec<i64> = whole.iter().copied().skip(offset).take(limit as usize).collect();
                let found = page(&world, query).await;
                assert_eq!(seqs(&found.events), slice, "{wanted:?} offset {offset} limit {limit}");
            }
        }
    }
}

/// Going on from `next_before_seq` sees every event once, also between `after_seq` and `before_seq`.
pub async fn pages_by_cursor(world: World) {
    let id = world.external(cycle(&["agent.a", "agent.b", "spec.c"], 40)).await;
    for event_types in [vec![], vec!["agent.*".to_owned()], vec!["spec.c".to_owned()]] {
        let base = EventQuery {
            event_types,
            after_seq: Some(3),
            before_seq: Some(38),
            ..EventQuery::newest(id.clone(), 500)
        };
        let whole = seqs(&page(&world, base.clone()).await.events);
        assert!(whole.iter().all(|seq| (4..38).contains(seq)));
        let (mut walked, mut before_seq) = (Vec::new(), base.before_seq);
        while before_seq.is_some() {
            let part = page(&world, EventQuery { before_seq, limit: 4, ..base.clone() }).await;
            walked.extend(seqs(&part.events));
            before_seq = part.next_before_seq;
        }
        assert_eq!(walked, whole);
    }
}

/// Text in the payload, with types, offset and a cursor.
pub async fn finds_text(world: World) {
    let events = (1..=50).map(|n| {
        let word = if n % 5 == 0 { "needle 🦀 100%_" } else { "hay" };
        event(if n % 2 == 0 { "even" } else { "odd" }, json!({"text": word, "n": n}))
    });
    let id = world.external(events.collect()).await;
    let query =
        EventQuery { contains: Some("needle 🦀 100%_".into()), ..EventQuery::newest(id.clone(), 4) };
    let first = page(&world, query.clone()).await;
    assert_eq!(seqs(&first.events), vec![50, 45, 40, 35]);
    let rest = EventQuery { before_seq: first.next_before_seq, limit: 50, ..query.clone() };
    let rest = page(&world, rest).await;
    assert_eq!((seqs(&rest.events), rest.next_before_seq), (vec![30, 25, 20, 15, 10, 5], None));
    let even = EventQuery { event_types: vec!["even".to_owned()], offset: 1, ..query.clone() };
    assert_eq!(seqs(&page(&world, even).await.events), vec![40, 30, 20, 10]);
    let nothing = EventQuery { contains: Some("NEEDLE".to_owned()), ..query };
    assert!(page(&world, nothing).await.events.is_empty(), "letters compare as they are");
}

/// An unknown sandbox is an error, never an empty page.
pub async fn says_when_a_sandbox_is_unknown(world: World) {
    let id = SandboxId::generate();
    let listed = world.store.list_events(EventQuery::newest(id.clone(), 5)).await;
    assert!(matches!(listed, Err(Error::NotFound { .. })));
    let trajectory = world.store.trajectory(story(&id, None, TrajectoryDirection::Older, 5)).await;
    assert!(matches!(trajectory, Err(Error::NotFound { .. })));
    assert!(matches!(world.store.sandbox_state(&id).await, Err(Error::NotFound { .. })));
    let known = world.external(numbered("x", 1..=1)).await;
    let cursor = story(&known, Some("no such event"), TrajectoryDirection::Older, 5);
    assert!(matches!(world.store.trajectory(cursor).await, Err(Error::NotFound { .. })));
}

fn story(
    id: &SandboxId,
    cursor: Option<&str>,
    direction: TrajectoryDirection,
    limit: u32,
) -> TrajectoryQuery {
    let cursor = cursor.map(str::to_owned);
    TrajectoryQuery { sandbox_id: id.clone(), cursor, direction, noise: Noise::Hidden, limit }
}

async fn trajectory(world: &World, query: TrajectoryQuery) -> TrajectoryPage {
    world.store.trajectory(query).await.expect("the sandbox exists")
}

/// Back and forth through events of one instant, each seen once, heartbeats left out.
pub async fn walks_the_trajectory_both_ways(world: World) {
    let id = world.external(cycle(&["agent.a", "agent.heartbeat", "agent.b"], 30)).await;
    let whole: Vec<i64> = (1..=30).rev().filter(|n| n % 3 != 2).collect();
    let (mut back, mut cursor) = (Vec::new(), None);
    loop {
        let query = story(&id, cursor.as_deref(), TrajectoryDirection::Older, 7);
        let part = trajectory(&world, query).await;
        assert_eq!((part.trajectory_events, part.head.last_seq, part.head.heartbeat_count), (20, 30, 10));
        assert_eq!(part.has_more, part.next_cursor.is_some());
        assert_eq!(part.prev_cursor.is_some(), cursor.is_some());
        back.extend(seqs(&part.events));
        cursor = part.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(back, whole);
    let oldest = world.store.events_after(&id, 0, 1).await.expect("up").remove(0);
    let (mut forth, mut cursor) = (vec![oldest.seq], Some(oldest.event_id));
    while let Some(at) = cursor {
        let part = trajectory(&world, story(&id, Some(&at), TrajectoryDirection::Newer, 7)).await;
        assert_eq!(part.has_more, part.prev_cursor.is_some());
        assert!(part.next_cursor.is_some(), "the cursor itself is older");
        forth.extend(seqs(&part.events).iter().rev());
        cursor = part.prev_cursor;
    }
    forth.reverse();
    assert_eq!(forth, whole);
}

fn grep(n: usize) -> NewEvent {
    event("agent.tool_use", json!({"tool": "Grep", "tool_use_id": format!("g{n}"), "input": {}}))
}

/// A page is full while more exists, however much noise lies between; shown noise is in its place.
pub async fn hides_noise_in_full_pages(world: World) {
    let mut events = Vec::new();
    for n in 0..10 {
        events.extend((0..20).map(|m| grep(n * 20 + m)));
        events.push(event("agent.message", json!({"n": n})));
    }
    events.push(event("agent.tool_use", json!({"tool": "Glob", "input": {"pattern": "**/*.rs"}})));
    let id = world.external(events).await;
    let hidden = trajectory(&world, story(&id, None, TrajectoryDirection::Older, 9)).await;
    assert_eq!(types(&hidden.events), vec!["agent.message"; 9]);
    assert!(hidden.has_more);
    assert_eq!(hidden.trajectory_events, 10);
    let shown = TrajectoryQuery { noise: Noise::Shown, ..story(&id, None, TrajectoryDirection::Older, 300) };
    let shown = trajectory(&world, shown).await;
    assert_eq!(seqs(&shown.events), (1..=211).rev().collect::<Vec<_>>());
    assert_eq!((shown.trajectory_events, shown.has_more), (211, false));
}

/// A noisy call's result carries only the call's id and is noise all the same, also in a later request.
pub async fn hides_results_of_noisy_calls(world: World) {
    let id = world.external(vec![grep(1), grep(2)]).await;
    let result = |call: &str| event("agent.tool_result", json!({"tool_use_id": call, "result": "x"}));
    world.post(&id, result("g2")).await;
    world.post(&id, result("other")).await;
    world.post(&id, result("g1")).await;
    let hidden = trajectory(&world, story(&id, None, TrajectoryDirection::Older, 9)).await;
    assert_eq!(seqs(&hidden.events), vec![4]);
}

/// Turns with their events, counted at ingest.
pub async fn outlines_turns(world: World) {
    let id = world.external(vec![event("agent.started", json!({}))]).await;
    let events = vec![
        event("agent.tool_use", json!({"turn": 1, "tool": "Bash"})),
        event("agent.tool_completed", json!({"turn": 1, "is_error": true})),
        event("agent.file_edited", json!({"turn": 1})),
        event("agent.message", json!({"turn": "not a number"})),
    ];
    let began = world.append(&id, crate::Writer::Operator, events).await;
    let began = began[0].as_ref().expect("taken").created_at;
    world.pass(9);
    let more = vec![
        event("agent.file_edited", json!({"turn": 1})),
        event("agent.message_injected", json!({"turn": 2, "content": "hi"})),
        event("agent.stream_error", json!({"turn": 2})),
    ];
    world.append(&id, crate::Writer::Operator, more).await;
    let turns = world.store.outline(&id, None, 10).await.expect("up");
    assert_eq!(turns.len(), 2);
    let one = &turns[0];
    assert_eq!((one.turn, one.first_seq, one.last_seq), (1, 2, 6));
    assert_eq!((one.tools, one.errors, one.edits, one.messages), (1, 1, 2, 0));
    assert_eq!((one.started_at, one.ended_at.duration_since(began).as_secs()), (began, 9));
    let two = &turns[1];
    assert_eq!((two.turn, two.errors, two.messages), (2, 1, 1));
    let after = world.store.outline(&id, Some(1), 10).await.expect("up");
    assert_eq!(after, vec![two.clone()]);
}

/// Reading on after a place, oldest first.
pub async fn reads_on_after_a_seq(world: World) {
    let id = SandboxId::generate();
    for n in 1..=5 {
        world.post(&id, event_with_id(&format!("e-{n}"), "x", json!({}))).await;
    }
    let page = world.store.events_after(&id, 2, 2).await.expect("up");
    assert_eq!(seqs(&page), vec![3, 4]);
    assert_eq!(page[0].event_id, "e-3");
    assert!(world.store.events_after(&id, 5, 2).await.expect("up").is_empty());
}

/// A page of large events ends early; its cursors lead through all of them, each once.
pub async fn ends_pages_by_bytes(world: World) {
    let large = |n: i64| event("big", json!({"n": n, "text": "x".repeat(1_000_000)}));
    let id = world.external((1..=10).map(large).collect()).await;
    world.external_more(&id, (11..=20).map(large).collect()).await;
    let wanted: Vec<i64> = (1..=20).rev().collect();
    for (event_types, contains) in
        [(vec![], None), (vec!["big".to_owned()], None), (vec![], Some("xxx".to_owned()))]
    {
        let mut seen = Vec::new();
        let mut before_seq = None;
        loop {
            let (event_types, contains) = (event_types.clone(), contains.clone());
            let query =
                EventQuery { event_types, contains, before_seq, ..EventQuery::newest(id.clone(), 500) };
            let page = world.store.list_events(query).await.expect("up");
            assert!((1..=10).contains(&page.events.len()), "{} events", page.events.len());
            seen.extend(seqs(&page.events));
            before_seq = page.next_before_seq;
            if before_seq.is_none() {
                break;
            }
        }
        assert_eq!(seen, wanted);
    }
    for direction in [TrajectoryDirection::Older, TrajectoryDirection::Newer] {
        assert_eq!(walk_by_bytes(&world, &id, direction).await, wanted, "{direction:?}");
    }
    let log = world.store.events_after(&id, 0, 500).await.expect("up");
    assert!(log.len() <= 10, "{} events", log.len());
    assert_eq!(world.log(&id).await.len(), 20);
    let feed = world.store.feed_after(0, 500).await.expect("up");
    assert!(feed.len() <= 12, "{} entries", feed.len());
}

async fn walk_by_bytes(world: &World, id: &SandboxId, direction: TrajectoryDirection) -> Vec<i64> {
    let newer = direction == TrajectoryDirection::Newer;
    let first = world.log(id).await[0].clone();
    let mut cursor = newer.then_some(first.event_id);
    let mut pages = Vec::new();
    loop {
        let (noise, sandbox_id) = (Noise::Hidden, id.clone());
        let query = TrajectoryQuery { sandbox_id, cursor, direction, noise, limit: 1000 };
        let page = world.store.trajectory(query).await.expect("up");
        assert!((1..=10).contains(&page.events.len()), "{} events", page.events.len());
        pages.push(seqs(&page.events));
        cursor = if newer { page.prev_cursor } else { page.next_cursor };
        assert_eq!(page.has_more, cursor.is_some());
        if !page.has_more {
            break;
        }
    }
    if newer {
        pages.reverse();
        pages.push(vec![first.seq]);
    }
    pages.concat()
}
