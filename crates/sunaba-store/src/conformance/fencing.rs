//! A worker whose place was taken, or whose sandbox ended long ago, can do nothing any more.

use serde_json::json;
use sunaba_types::limits::ENDED_GRACE_SECONDS;
use sunaba_types::{BlobHash, MessageType, Sandbox, SandboxId};

use super::sessions::transcript;
use super::world::{World, event, own};
use crate::{Error, Rejection, TakeMode, Writer};

/// Tries every write of a worker, and the look before a write; gives what each was refused with.
async fn refusals(world: &World, sandbox: &Sandbox, by: Writer) -> Vec<Option<&'static str>> {
    let store = &world.store;
    let code = |result: crate::Result<()>| match result {
        Ok(()) => None,
        Err(Error::Conflict { code, .. }) => Some(code),
        Err(other) => panic!("{other:?}"),
    };
    let outcomes = world.append(&sandbox.id, by, vec![event("x", json!({}))]).await;
    let event = match &outcomes[0] {
        Ok(_) => None,
        Err(Rejection::AttemptSuperseded) => Some("attempt_superseded"),
        Err(Rejection::SandboxEnded) => Some("sandbox_ended"),
        Err(other) => panic!("{other:?}"),
    };
    let hash = BlobHash::of(b"late");
    let explicit =
        TakeMode::Explicit { acknowledged: vec![sunaba_types::MessageId::generate()], again: false };
    vec![
        event,
        code(store.check_standing(&sandbox.id, by).await),
        code(store.record_blob(&hash, 4, Some(&sandbox.id), by).await),
        code(store.put_transcript(transcript(sandbox, "s", "said", 1), by).await.map(drop)),
        code(store.take_messages(&sandbox.id, by, explicit).await.map(drop)),
        code(store.take_messages(&sandbox.id, by, TakeMode::Legacy).await.map(drop)),
        code(store.offer_messages(&sandbox.id, by).await.map(drop)),
        code(store.hand_over(&sandbox.id, by, Vec::new()).await),
    ]
}

/// Neither an older attempt's token nor one bound to another attempt of the same sandbox stands for it.
pub async fn refuses_a_superseded_worker(world: World) {
    let (task, first) = world.running().await;
    assert_eq!(refusals(&world, &first, own(&first)).await, [None; 8]);
    world.fail_and_retry(&first.id).await;
    assert_eq!(refusals(&world, &first, own(&first)).await, [None; 8], "nobody has taken its place yet");
    let second = world.assign(&task.id).await;
    let message = world.say(&second.id, MessageType::UserMessage, "for the second").await;
    let superseded = [Some("attempt_superseded"); 8];
    assert_eq!(refusals(&world, &first, own(&first)).await, superseded);
    let foreign = Writer::Sandbox { attempt: first.attempt };
    assert_eq!(refusals(&world, &second, foreign).await, superseded, "also where something waits");
    let waiting = world.store.find_message(&message.id).await.expect("up").expect("it exists");
    assert_eq!(waiting, message, "nothing was taken");
    let blobs = world.store.blob_owners(&BlobHash::of(b"late")).await.expect("up");
    assert_eq!(blobs, vec![Some(first.id.clone())], "the first one's, from before");
    assert_eq!(refusals(&world, &second, own(&second)).await, [None; 8]);
}

/// Late for ten minutes, then not at all; whoever is no worker is not fenced.
pub async fn refuses_a_worker_long_after_the_end(world: World) {
    let (_, sandbox) = world.running().await;
    world.step(&sandbox.id, sunaba_engine::SandboxTrigger::Cancel).await;
    world.pass(ENDED_GRACE_SECONDS - 1);
    assert_eq!(refusals(&world, &sandbox, own(&sandbox)).await, [None; 8]);
    world.pass(1);
    assert_eq!(refusals(&world, &sandbox, own(&sandbox)).await, [Some("sandbox_ended"); 8]);
    world.store.check_standing(&sandbox.id, Writer::Operator).await.expect("no worker");
    let unknown = world.store.check_standing(&SandboxId::generate(), Writer::Sandbox { attempt: 1 }).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}
