//! Messages on their way into the conversation, and the two things that stop the agent at once.

use std::collections::VecDeque;
use std::time::Duration;

use sunaba_types::MessageType;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Incoming;

/// Past this the inbox is left alone until the next model call; its own bound then holds the sender back.
const PENDING_MAX: usize = 1024;

/// Why the agent has to let go of what it does.
#[derive(Debug)]
pub(super) enum Stop {
    /// Somebody interrupts it.
    Interrupt(Incoming),
    /// The run is to end.
    Shutdown,
}

/// What waiting for words came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// Somebody said something.
    Words,
    /// The run is to end.
    Shutdown,
    /// Nobody did, or nobody can any more.
    InVain,
}

#[derive(Debug)]
pub(super) struct Steering {
    inbox: mpsc::Receiver<Incoming>,
    inbox_open: bool,
    pending: VecDeque<Incoming>,
    shutdown: CancellationToken,
}

impl Steering {
    pub(super) fn new(inbox: mpsc::Receiver<Incoming>, shutdown: CancellationToken) -> Self {
        Self { inbox, inbox_open: true, pending: VecDeque::new(), shutdown }
    }

    /// Waits for a reason to stop; messages that come meanwhile are kept. Safe to drop at any point.
    pub(super) async fn stop_signal(&mut self) -> Stop {
        loop {
            let may_receive = self.inbox_open && self.pending.len() < PENDING_MAX;
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Stop::Shutdown,
                received = self.inbox.recv(), if may_receive => match received {
                    None => self.inbox_open = false,
                    Some(message) if is_interrupt(&message) => return Stop::Interrupt(message),
                    Some(message) => self.pending.push_back(message),
                },
            }
        }
    }

    /// Takes what is already there, up to a reason to stop.
    pub(super) fn take_ready(&mut self) -> Option<Stop> {
        if self.shutdown.is_cancelled() {
            return Some(Stop::Shutdown);
        }
        while self.pending.len() < PENDING_MAX {
            match self.inbox.try_recv() {
                Ok(message) if is_interrupt(&message) => return Some(Stop::Interrupt(message)),
                Ok(message) => self.pending.push_back(message),
                Err(_) => break,
            }
        }
        None
    }

    /// Keeps an interrupt, so that the model is told of it with the next message.
    pub(super) fn keep(&mut self, interrupt: Incoming) {
        self.pending.push_back(interrupt);
    }

    /// Whether somebody has said something that the model has not been told.
    pub(super) fn has_words(&self) -> bool {
        self.pending.iter().any(|message| !message.content.trim().is_empty())
    }

    /// Waits until somebody has.
    pub(super) async fn wait_for_words(&mut self, limit: Duration) -> Waited {
        let waiting = async {
            while !self.has_words() {
                tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => return Waited::Shutdown,
                    received = self.inbox.recv() => match received {
                        None => return Waited::InVain,
                        Some(message) => self.pending.push_back(message),
                    },
                }
            }
            Waited::Words
        };
        tokio::time::timeout(limit, waiting).await.unwrap_or(Waited::InVain)
    }

    /// What the model is to be told now, oldest first.
    pub(super) fn take_pending(&mut self) -> Vec<Incoming> {
        self.pending.drain(..).collect()
    }

    /// Closes the inbox; what is left in it goes back to whoever started the run.
    pub(super) fn close(mut self) -> Vec<Incoming> {
        self.inbox.close();
        let mut left = self.take_pending();
        while let Ok(message) = self.inbox.try_recv() {
            left.push(message);
        }
        left
    }
}

fn is_interrupt(message: &Incoming) -> bool {
    message.message_type == MessageType::Interrupt
}

/// A message as the model reads it: who speaks, how, and what.
pub(crate) fn spoken(message: &Incoming) -> String {
    let Incoming { sender, content, .. } = message;
    match message.message_type {
        MessageType::Interrupt => format!("[{sender} interrupted you] {content}").trim_end().to_owned(),
        MessageType::UserMessage => format!("[message from {sender} while you were working] {content}"),
        MessageType::GuardianNudge => format!("[nudge from {sender} while you were working] {content}"),
        MessageType::Guidance => format!("[guidance from {sender} while you were working] {content}"),
        MessageType::System => format!("[system message from {sender} while you were working] {content}"),
    }
}
