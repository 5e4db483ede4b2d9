//! What became of the messages sent from this terminal; each state is told once.

use sunaba_types::MessageState;

use crate::client::MessageFate;

/// A message whose fate is still open.
#[derive(Debug)]
struct Open {
    id: String,
    kind: String,
    content: String,
    state: MessageState,
}

/// A step in a message's life that was not told yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// What kind of message.
    pub(super) kind: String,
    /// What was said.
    pub(super) content: String,
    /// How far it has come, in words.
    pub(super) state: String,
}

/// The messages that are on their way.
#[derive(Debug, Default)]
pub(super) struct Deliveries(Vec<Open>);

impl Deliveries {
    /// A message was queued.
    pub(super) fn sent(&mut self, id: &str, kind: &str, content: &str) {
        self.0.push(Open {
            id: id.to_owned(),
            kind: kind.to_owned(),
            content: content.to_owned(),
            state: MessageState::Queued,
        });
    }

    /// The story told that this one is in the conversation.
    pub(super) fn told_consumed(&mut self, id: &str) {
        self.0.retain(|open| open.id != id);
    }

    /// Whether the fate of this one is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.0.iter().any(|open| open.id == id)
    }

    /// Whether the fate of any is open.
    pub(super) fn any_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// Compares with what the server says; gives what is new.
    pub(super) fn update(&mut self, history: &[MessageFate]) -> Vec<Change> {
        let mut changes = Vec::new();
        for open in &mut self.0 {
            let Some(message) = history.iter().find(|message| message.id.as_str() == open.id) else {
                continue;
            };
            if message.state == open.state {
                continue;
            }
            open.state = message.state;
            // That it was taken matters to nobody, and the event that consumed it is in the story.
            if matches!(message.state, MessageState::HandedOver | MessageState::Consumed) {
                continue;
            }
            changes.push(Change {
                kind: open.kind.clone(),
                content: open.content.clone(),
                state: words(message),
            });
        }
        self.0.retain(|open| matches!(open.state, MessageState::Queued | MessageState::HandedOver));
        changes
    }
}

fn words(message: &MessageFate) -> String {
    let reason = message.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match message.state {
        MessageState::Queued | MessageState::HandedOver => "sent".to_owned(),
        MessageState::Consumed => "read".to_owned(),
        MessageState::Superseded => format!("superseded{reason}"),
        MessageState::Expired => format!("expired{reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(state: &str) -> MessageFate {
        serde_json::from_value(serde_json::json!({
            "id": "msg_1", "content": "hi", "message_type": "user_message",
            "sender": "me", "state": state, "created_at": "2026-01-01T00:00:00Z", "reason": "it ended",
        }))
        .unwrap()
    }

    #[test]
    fn each_state_is_told_once() {
        let mut deliveries = Deliveries::default();
        deliveries.sent("msg_1", "user_message", "hi");
        assert_eq!(deliveries.update(&[message("queued")]), []);
        assert_eq!(deliveries.update(&[message("handed_over")]), []);
        assert!(deliveries.any_open());
        assert_eq!(deliveries.update(&[message("expired")])[0].state, "expired: it ended");
        assert!(!deliveries.any_open());
    }

    #[test]
    fn what_the_story_told_is_not_told_again() {
        let mut deliveries = Deliveries::default();
        deliveries.sent("msg_1", "user_message", "hi");
        deliveries.told_consumed("msg_1");
        assert_eq!(deliveries.update(&[message("consumed")]), []);
    }
}
