//! Many writers at once, with retries: whatever the order, each event is stored once.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use sunaba_types::SandboxId;

use super::world::{World, assert_chain, event_with_id};
use crate::Writer;

/// One request: to which of a few sandboxes, and which event numbers (a number again is a retry).
pub type Request = (u8, Vec<u16>);

/// Sends each writer's requests one after the other and all writers at once.
///
/// Afterwards every log is numbered from 1 without a gap, its chain holds, every
/// event is there exactly once, and every answer names the place where it is.
pub async fn run(world: World, writers: Vec<Vec<Request>>) {
    let world = Arc::new(world);
    let ids: Arc<Vec<SandboxId>> = Arc::new((0..=u8::MAX).map(|_| SandboxId::generate()).collect());
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|requests| tokio::spawn(write(Arc::clone(&world), Arc::clone(&ids), requests)))
        .collect();
    let mut answers: HashMap<(u8, u16), i64> = HashMap::new();
    for task in tasks {
        for (key, seq) in task.await.expect("no writer panics") {
            assert_eq!(*answers.entry(key).or_insert(seq), seq, "one event, one place");
        }
    }
    let mut sandboxes: Vec<u8> = answers.keys().map(|(sandbox, _)| *sandbox).collect();
    sandboxes.sort_unstable();
    sandboxes.dedup();
    for sandbox in sandboxes {
        let log = world.log(&ids[usize::from(sandbox)]).await;
        assert_chain(&log);
        assert_eq!(log.len(), answers.keys().filter(|(own, _)| *own == sandbox).count());
        for event in log {
            let number: u16 = event.event_id.parse().expect("the suite's own ids");
            assert_eq!(answers[&(sandbox, number)], event.seq);
        }
    }
}

async fn write(world: Arc<World>, ids: Arc<Vec<SandboxId>>, requests: Vec<Request>) -> Vec<((u8, u16), i64)> {
    let mut answers = Vec::new();
    for (sandbox, numbers) in requests {
        let events = numbers.iter().map(|n| event_with_id(&n.to_string(), "x", json!({"n": n}))).collect();
        let outcomes = world.append(&ids[usize::from(sandbox)], Writer::Registrar, events).await;
        for (number, outcome) in numbers.into_iter().zip(outcomes) {
            answers.push(((sandbox, number), outcome.expect("taken").seq));
        }
    }
    answers
}

/// A fixed plan; backends may also drive [`run`] with generated ones.
pub async fn interleaved_writers_with_retries(world: World) {
    let mut state = 0x2545_f491_u32;
    let mut next = |below: u32| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        u16::try_from(state % below).expect("small")
    };
    let mut plan = Vec::new();
    for _ in 0..12 {
        let mut requests = Vec::new();
        for _ in 0..10 {
            let sandbox = u8::try_from(next(3)).expect("small");
            let count = usize::from(next(6)) + 1;
            requests.push((sandbox, (0..count).map(|_| next(150)).collect()));
        }
        plan.push(requests);
    }
    run(world, plan).await;
}
