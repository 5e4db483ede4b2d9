//! Receives what is said to the agent, by long poll, and acknowledges what the agent has been handed.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use sunaba_agent::Incoming;
use sunaba_types::MessageType;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::http::Client;

const WAIT_SECONDS: u64 = 25;
/// A poll that takes longer than this has met a dead connection.
const PATIENCE: Duration = Duration::from_secs(WAIT_SECONDS + 35);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The receiving task.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) client: Client,
    pub(super) path: String,
    /// Messages that the agent has without a poll.
    pub(super) told: HashSet<String>,
    /// To the agent. Full: the poll waits, and the server keeps the rest.
    pub(super) inbox: mpsc::Sender<Incoming>,
    pub(super) over: CancellationToken,
}

#[derive(Debug, Deserialize)]
struct Message {
    id: String,
    content: String,
    message_type: String,
    #[serde(default)]
    sender: Option<String>,
}

impl Messages {
    /// Receives until the agent is gone, the task is dropped or the server says stop.
    pub(super) async fn run(mut self) {
        let mut handed_over = std::mem::take(&mut self.told);
        let mut acknowledge: Vec<String> = Vec::new();
        let mut pause = PAUSE_FIRST;
        loop {
            // One poll at a time, and each acknowledges all that the last one brought: whatever else was handed
            // over is in an answer that was lost.
            let path = format!("{}?wait={WAIT_SECONDS}&again=true&ack={}", self.path, acknowledge.join(","));
            let messages = match self.client.get(&path, PATIENCE).await {
                Ok(answer) if answer.status.is_success() => {
                    serde_json::from_slice::<Vec<Message>>(&answer.body).map_err(|error| error.to_string())
                }
                Ok(answer) if answer.says_stop() => return self.over.cancel(),
                Ok(answer) => Err(format!("status {}", answer.status)),
                Err(error) => Err(error.to_string()),
            };
            match messages {
                Ok(messages) => {
                    pause = PAUSE_FIRST;
                    acknowledge.clear();
                    for message in messages {
                        acknowledge.push(message.id.clone());
                        // Offered again because an acknowledgement was lost: handed over once.
                        if handed_over.insert(message.id.clone())
                            && self.inbox.send(incoming(message)).await.is_err()
                        {
                            return;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot fetch messages; trying again");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}

fn incoming(message: Message) -> Incoming {
    Incoming {
        message_id: message.id,
        message_type: MessageType::parse(&message.message_type).unwrap_or(MessageType::UserMessage),
        content: message.content,
        sender: message.sender.unwrap_or_default(),
    }
}
