//! More processes beside the command: hands them to the guest and tells who asked how they ended.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use sunaba_types::shim::Reply;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::control::{Exec, refused};
use crate::guest::{Order, Word, send_order};

/// How long the guest may take to take an order. It may have been stopped from inside.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// The line to the guest and who waits for what.
#[derive(Debug)]
pub(super) struct Line {
    to_guest: OwnedWriteHalf,
    /// An order that was cut off would spoil every one that follows.
    broken: bool,
    waiting: HashMap<u64, oneshot::Sender<Reply>>,
}

impl Line {
    pub(super) fn new(to_guest: OwnedWriteHalf) -> Self {
        Self { to_guest, broken: false, waiting: HashMap::new() }
    }

    pub(super) async fn terminate(&mut self) {
        self.send(&Order::Terminate, &[]).await;
    }

    pub(super) async fn start(&mut self, exec: Exec) {
        let Exec { id, command, env, streams, ended } = exec;
        if self.send(&Order::Exec { id, command, env, cwd: None }, &streams).await {
            self.waiting.insert(id, ended);
        } else {
            let _ = ended
                .send(refused("the sandbox takes no more processes: its guest does not answer".to_owned()));
        }
    }

    pub(super) async fn end(&mut self, id: u64) {
        if self.waiting.contains_key(&id) {
            self.send(&Order::KillExec { id }, &[]).await;
        }
    }

    /// Passes on how a process ended.
    pub(super) fn hear(&mut self, word: Word) {
        let Word::ExecExited { id, code, signal, error } = word else { return };
        if let Some(ended) = self.waiting.remove(&id) {
            let reply = error.map_or(Reply::ExecExited { code, signal, timed_out: false }, refused);
            // Whoever asked may have left.
            let _ = ended.send(reply);
        }
    }

    async fn send(&mut self, order: &Order, files: &[OwnedFd]) -> bool {
        if self.broken {
            return false;
        }
        let files: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        let sent = timeout(ORDER_TIMEOUT, send_order(&self.to_guest, order, &files)).await;
        // One that is too long is refused before a byte of it is sent.
        self.broken = match &sent {
            Ok(Err(error)) => error.kind() != std::io::ErrorKind::InvalidInput,
            Ok(Ok(())) => false,
            Err(_) => true,
        };
        matches!(sent, Ok(Ok(())))
    }
}
