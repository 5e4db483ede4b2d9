//! What is said to the agent, across the runs of one sandbox.

use std::collections::VecDeque;
use std::pin::pin;

use sunaba_agent::Incoming;
use sunaba_types::MessageType;
use tokio::sync::mpsc;

/// Messages on their way to whichever run goes on. None is lost between two.
#[derive(Debug)]
pub(super) struct Inbox {
    source: mpsc::Receiver<Incoming>,
    /// What a run was given, or was about to be given, and did not take in.
    left: VecDeque<Incoming>,
}

impl Inbox {
    pub(super) fn new(source: mpsc::Receiver<Incoming>) -> Self {
        Self { source, left: VecDeque::new() }
    }

    /// Gives what comes to a run until that ends.
    pub(super) async fn during<T>(&mut self, to: mpsc::Sender<Incoming>, run: impl Future<Output = T>) -> T {
        let mut run = pin!(run);
        let mut next = None;
        let (mut taken, mut more) = (true, true);
        loop {
            next = next.or_else(|| self.left.pop_front());
            tokio::select! {
                biased;
                ended = &mut run => {
                    self.left.extend(next);
                    return ended;
                }
                permit = to.reserve(), if next.is_some() && taken => match (permit, next.take()) {
                    (Ok(permit), Some(message)) => permit.send(message),
                    (_, message) => (taken, next) = (false, message),
                },
                message = self.source.recv(), if next.is_none() && more => {
                    more = message.is_some();
                    next = message;
                }
            }
        }
    }

    /// Takes back what a run had and did not take in: it comes first the next time.
    pub(super) fn take_back(&mut self, undelivered: Vec<Incoming>) {
        for message in undelivered.into_iter().rev() {
            self.left.push_front(message);
        }
    }

    /// Everything that has been said and has words, waiting for the first of it. None when nothing will come any more.
    /// May be dropped and called again.
    pub(super) async fn words(&mut self) -> Option<Vec<Incoming>> {
        loop {
            while let Ok(message) = self.source.try_recv() {
                self.left.push_back(message);
            }
            // What was to stop an agent that is done has nothing to do any more.
            self.left.retain(has_words);
            if !self.left.is_empty() {
                return Some(self.left.drain(..).collect());
            }
            let message = self.source.recv().await?;
            self.left.push_back(message);
        }
    }
}

fn has_words(message: &Incoming) -> bool {
    message.message_type != MessageType::Interrupt || !message.content.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, message_type: MessageType, content: &str) -> Incoming {
        let (message_id, content) = (id.to_owned(), content.to_owned());
        Incoming { message_id, message_type, content, sender: "you".to_owned() }
    }

    #[tokio::test]
    async fn what_one_run_did_not_take_in_comes_first_the_next_time() {
        let (sender, source) = mpsc::channel(8);
        let mut inbox = Inbox::new(source);
        for id in ["1", "2", "3"] {
            sender.send(message(id, MessageType::UserMessage, "x")).await.unwrap();
        }
        let (to, mut run) = mpsc::channel(1);
        let taken = inbox.during(to, async { run.recv().await.unwrap() }).await;
        assert_eq!(taken.message_id, "1");
        inbox.take_back(std::iter::from_fn(|| run.try_recv().ok()).collect());
        sender.send(message("stop", MessageType::Interrupt, " ")).await.unwrap();
        let left: Vec<String> = inbox.words().await.unwrap().into_iter().map(|one| one.message_id).collect();
        assert_eq!(left, ["2", "3"]);
        drop(sender);
        assert_eq!(inbox.words().await, None);
    }
}
