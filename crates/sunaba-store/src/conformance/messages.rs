//! Messages and their fate.

use serde_json::json;
use sunaba_engine::SandboxTrigger;
use sunaba_types::limits::{MESSAGE_REDELIVERY_SECONDS, MESSAGES_MAX_WAITING};
use sunaba_types::{Message, MessageState, MessageType, NewMessage, SandboxId};

use super::world::{World, event, own};
use crate::{Error, TakeMode, Writer};

const USER: MessageType = MessageType::UserMessage;

async fn find(world: &World, message: &Message) -> Message {
    world.store.find_message(&message.id).await.expect("up").expect("it exists")
}

/// Interrupts first, then oldest first; numbers from 1.
pub async fn hands_over_interrupts_first(world: World) {
    let (_, sandbox) = world.running().await;
    let first = world.say(&sandbox.id, USER, "one").await;
    world.say(&sandbox.id, MessageType::Guidance, "two").await;
    world.say(&sandbox.id, MessageType::Interrupt, "stop").await;
    let fourth = NewMessage {
        sandbox_id: sandbox.id.clone(),
        content: "three".to_owned(),
        message_type: USER,
        sender: "tester".to_owned(),
    };
    let queued = world.store.queue_message(fourth).await.expect("queued");
    assert_eq!((first.seq, queued.message.seq, queued.queue_size), (1, 4, 4));
    let peeked = world.store.peek_messages(&sandbox.id).await.expect("up");
    assert_eq!(peeked.len(), 4);
    assert!(peeked.iter().all(|message| message.state == MessageState::Queued), "looking has no effect");
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["stop", "one", "two", "three"]);
}

/// What is not acknowledged comes again after 30 seconds, not before.
pub async fn offers_again_until_acknowledged(world: World) {
    let (_, sandbox) = world.running().await;
    let message = world.say(&sandbox.id, USER, "one").await;
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["one"]);
    let handed_over = find(&world, &message).await;
    assert_eq!(handed_over.state, MessageState::HandedOver);
    world.pass(MESSAGE_REDELIVERY_SECONDS - 1);
    assert!(world.poll(&sandbox.id, &[]).await.is_empty());
    world.pass(1);
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["one"]);
    assert_eq!(find(&world, &message).await.handed_over_at, handed_over.handed_over_at, "the first time");
    assert!(world.poll(&sandbox.id, &[]).await.is_empty(), "offered a moment ago");
}

/// An acknowledged message does not come again; acknowledging others' or unknown ones is harmless.
pub async fn acknowledges_explicitly(world: World) {
    let (_, sandbox) = world.running().await;
    let other = world.external(vec![event("agent.started", json!({}))]).await;
    let one = world.say(&sandbox.id, USER, "one").await;
    let two = world.say(&sandbox.id, USER, "two").await;
    let foreign = world.say(&other, USER, "foreign").await;
    assert_eq!(world.poll(&other, &[]).await, vec!["foreign"]);
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["one", "two"]);
    assert!(world.poll(&sandbox.id, &[&one, &foreign]).await.is_empty());
    world.pass(MESSAGE_REDELIVERY_SECONDS);
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["two"]);
    assert_eq!(world.poll(&other, &[]).await, vec!["foreign"], "only the sandbox itself acknowledges");
    assert!(find(&world, &one).await.acknowledged_at.is_some());
    assert!(find(&world, &two).await.acknowledged_at.is_none());
    let peeked = world.store.peek_messages(&sandbox.id).await.expect("up");
    assert_eq!(peeked.into_iter().map(|message| message.id).collect::<Vec<_>>(), vec![two.id]);
}

/// Legacy: handed over once; the next legacy poll acknowledges.
pub async fn takes_a_legacy_poll_as_acknowledgement(world: World) {
    let (_, sandbox) = world.running().await;
    let message = world.say(&sandbox.id, USER, "one").await;
    assert_eq!(world.take(&sandbox.id, TakeMode::Legacy).await, vec!["one"]);
    assert!(find(&world, &message).await.acknowledged_at.is_none());
    assert!(world.take(&sandbox.id, TakeMode::Legacy).await.is_empty());
    assert!(find(&world, &message).await.acknowledged_at.is_some());
    world.pass(MESSAGE_REDELIVERY_SECONDS * 2);
    assert!(world.take(&sandbox.id, TakeMode::Legacy).await.is_empty());
}

/// Legacy in two steps: what was shown and not handed over is shown again.
pub async fn shows_before_it_hands_over(world: World) {
    let (_, sandbox) = world.running().await;
    let message = world.say(&sandbox.id, USER, "one").await;
    let offer = async || {
        let shown = world.store.offer_messages(&sandbox.id, own(&sandbox)).await.expect("up");
        shown.into_iter().map(|message| message.id).collect::<Vec<_>>()
    };
    assert_eq!(offer().await, vec![message.id.clone()]);
    assert_eq!(find(&world, &message).await.state, MessageState::Queued);
    let shown = offer().await;
    assert_eq!(shown, vec![message.id.clone()], "nobody has it yet");
    let before = world.store.feed_head().await.expect("up");
    world.store.hand_over(&sandbox.id, own(&sandbox), shown).await.expect("up");
    let names: Vec<String> = world.feed(before).await.iter().map(|entry| entry.event_type.clone()).collect();
    assert_eq!(names, vec!["SANDBOX_MESSAGE_DELIVERED"]);
    let taken = find(&world, &message).await;
    assert_eq!((taken.state, taken.acknowledged_at), (MessageState::HandedOver, None));
    assert!(offer().await.is_empty());
    assert!(find(&world, &message).await.acknowledged_at.is_some(), "the next poll acknowledges");
}

/// `agent.started` offers again everything that is not consumed, acknowledged or not.
pub async fn offers_again_to_a_new_worker(world: World) {
    let (_, sandbox) = world.running().await;
    let eaten = world.say(&sandbox.id, USER, "eaten").await;
    let held = world.say(&sandbox.id, USER, "held").await;
    world.say(&sandbox.id, USER, "fresh").await;
    world.poll(&sandbox.id, &[]).await;
    world.poll(&sandbox.id, &[&eaten, &held]).await;
    let injected = event("agent.message_injected", json!({"message_id": eaten.id, "content": "eaten"}));
    world.append(&sandbox.id, own(&sandbox), vec![injected]).await;
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.started", json!({}))]).await;
    assert_eq!(world.poll(&sandbox.id, &[]).await, vec!["held", "fresh"]);

    let legacy = world.external(vec![event("agent.started", json!({}))]).await;
    world.say(&legacy, USER, "lost").await;
    assert_eq!(world.take(&legacy, TakeMode::Legacy).await, vec!["lost"]);
    world.append(&legacy, Writer::Operator, vec![event("agent.started", json!({}))]).await;
    assert_eq!(world.take(&legacy, TakeMode::Legacy).await, vec!["lost"]);
}

/// A worker that lost an answer is offered at once what it has not acknowledged, and only that.
pub async fn offers_again_when_an_answer_was_lost(world: World) {
    let (_, sandbox) = world.running().await;
    let had = world.say(&sandbox.id, USER, "had").await;
    assert_eq!(world.poll(&sandbox.id, &[]).await, ["had"]);
    world.say(&sandbox.id, USER, "lost").await;
    assert_eq!(world.poll(&sandbox.id, &[&had]).await, ["lost"]);
    assert!(world.poll(&sandbox.id, &[]).await.is_empty(), "its time has not come");
    let again = || TakeMode::Explicit { acknowledged: vec![], again: true };
    assert_eq!(world.take(&sandbox.id, again()).await, ["lost"]);
    assert_eq!(world.take(&sandbox.id, again()).await, ["lost"], "as often as it is needed");
}

/// `agent.message_injected` with an id marks that message, at that event.
pub async fn marks_consumed_by_id(world: World) {
    let (_, sandbox) = world.running().await;
    let one = world.say(&sandbox.id, USER, "same").await;
    let two = world.say(&sandbox.id, USER, "same").await;
    world.poll(&sandbox.id, &[]).await;
    let injected = event("agent.message_injected", json!({"message_id": two.id, "content": "same"}));
    let outcome = world.append(&sandbox.id, own(&sandbox), vec![injected]).await;
    let consumed = find(&world, &two).await;
    assert_eq!(consumed.state, MessageState::Consumed);
    assert_eq!(consumed.consumed_seq, outcome[0].as_ref().ok().map(|appended| appended.seq));
    assert!(consumed.consumed_at.is_some());
    assert_eq!(find(&world, &one).await.state, MessageState::HandedOver);
    let other = world.external(vec![event("agent.started", json!({}))]).await;
    let stolen = event("agent.message_injected", json!({"message_id": one.id}));
    world.append(&other, Writer::Operator, vec![stolen]).await;
    assert_eq!(find(&world, &one).await.state, MessageState::HandedOver, "another's message");
}

/// Without an id it is the oldest handed-over message that says the same.
pub async fn marks_consumed_by_content(world: World) {
    let (_, sandbox) = world.running().await;
    let one = world.say(&sandbox.id, USER, "same").await;
    let two = world.say(&sandbox.id, USER, "same").await;
    world.poll(&sandbox.id, &[]).await;
    let late = world.say(&sandbox.id, USER, "not taken").await;
    let injected = |content: &str| event("agent.message_injected", json!({"content": content}));
    world.append(&sandbox.id, own(&sandbox), vec![injected("same"), injected("not taken")]).await;
    let states =
        [find(&world, &one).await.state, find(&world, &two).await.state, find(&world, &late).await.state];
    assert_eq!(states, [MessageState::Consumed, MessageState::HandedOver, MessageState::Queued]);
}

/// At most 1,000 wait; one taken makes room.
pub async fn bounds_the_queue(world: World) {
    let (_, sandbox) = world.running().await;
    for n in 0..MESSAGES_MAX_WAITING {
        world.say(&sandbox.id, USER, &n.to_string()).await;
    }
    let over = || NewMessage {
        sandbox_id: sandbox.id.clone(),
        content: "over".to_owned(),
        message_type: USER,
        sender: "tester".to_owned(),
    };
    let refused = world.store.queue_message(over()).await;
    assert!(matches!(refused, Err(Error::Full { code: "message_queue_full", .. })), "{refused:?}");
    let explicit = TakeMode::Explicit { acknowledged: vec![], again: false };
    let taken = world.store.take_messages(&sandbox.id, own(&sandbox), explicit).await;
    let taken = taken.expect("up");
    assert_eq!(taken.len(), MESSAGES_MAX_WAITING);
    world.poll(&sandbox.id, &[&taken[0]]).await;
    assert_eq!(world.store.queue_message(over()).await.expect("there is room").queue_size, 1);
}

/// Nobody takes a message to an ended or unknown sandbox.
pub async fn refuses_messages_to_the_dead(world: World) {
    let (_, sandbox) = world.running().await;
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
    let message = |sandbox_id: &SandboxId| NewMessage {
        sandbox_id: sandbox_id.clone(),
        content: "hello?".to_owned(),
        message_type: USER,
        sender: "tester".to_owned(),
    };
    let dead = world.store.queue_message(message(&sandbox.id)).await;
    assert!(matches!(dead, Err(Error::Conflict { code: "sandbox_ended", .. })), "{dead:?}");
    let unknown = world.store.queue_message(message(&SandboxId::generate())).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
}

/// A poll that finds nothing publishes and commits nothing.
pub async fn writes_nothing_for_an_empty_poll(world: World) {
    let (_, sandbox) = world.running().await;
    let mut hints = world.store.hints();
    hints.mark_unchanged();
    for _ in 0..3 {
        assert!(world.poll(&sandbox.id, &[]).await.is_empty());
        assert!(world.take(&sandbox.id, TakeMode::Legacy).await.is_empty());
        assert!(world.poll(&SandboxId::generate(), &[]).await.is_empty());
    }
    assert!(!hints.has_changed().expect("the store lives"));
}

/// Every message with its fate, in order, in pages.
pub async fn keeps_the_history(world: World) {
    let (_, sandbox) = world.running().await;
    for n in 1..=5 {
        world.say(&sandbox.id, USER, &n.to_string()).await;
    }
    world.poll(&sandbox.id, &[]).await;
    let page = world.store.message_history(&sandbox.id, 2, 2).await.expect("up");
    assert_eq!(page.iter().map(|message| message.seq).collect::<Vec<_>>(), vec![3, 4]);
    assert!(page.iter().all(|message| message.state == MessageState::HandedOver));
    assert_eq!(page[0].sender, "tester");
}

/// What nobody took before the end is expired, with the reason.
pub async fn expires_what_nobody_took(world: World) {
    let (_, sandbox) = world.running().await;
    let read = world.say(&sandbox.id, USER, "read").await;
    let taken = world.say(&sandbox.id, USER, "taken").await;
    world.poll(&sandbox.id, &[]).await;
    let injected = event("agent.message_injected", json!({"message_id": read.id}));
    world.append(&sandbox.id, own(&sandbox), vec![injected]).await;
    world.poll(&sandbox.id, &[&taken]).await;
    let waiting = world.say(&sandbox.id, USER, "waiting").await;
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.failed", json!({}))]).await;
    let expired = find(&world, &waiting).await;
    assert_eq!(expired.state, MessageState::Expired);
    assert!(expired.reason.is_some());
    let unread = find(&world, &taken).await;
    assert_eq!(unread.state, MessageState::Expired);
    assert!(unread.reason.is_some() && unread.reason != expired.reason, "{:?}", unread.reason);
    assert!(unread.handed_over_at.is_some(), "that it was taken is still known");
    assert_eq!(find(&world, &read).await.state, MessageState::Consumed);
    assert!(world.poll(&sandbox.id, &[]).await.is_empty());
}

/// Queueing and handing over are published.
pub async fn publishes_queueing_and_delivery(world: World) {
    let (_, sandbox) = world.running().await;
    let before = world.store.feed_head().await.expect("up");
    world.say(&sandbox.id, USER, "one").await;
    world.poll(&sandbox.id, &[]).await;
    let feed = world.feed(before).await;
    let names: Vec<&str> = feed.iter().map(|entry| entry.event_type.as_str()).collect();
    assert_eq!(names, vec!["SANDBOX_MESSAGE_QUEUED", "SANDBOX_MESSAGE_DELIVERED"]);
    assert!(feed.iter().all(|entry| entry.entity_id == sandbox.id.as_str()));
}
