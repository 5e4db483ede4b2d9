//! Answers on the control socket, several clients at once.

use std::time::Duration;

use anyhow::Context as _;
use sunaba_types::shim::{CONTROL_SOCKET, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Stage;

const LINE_MAX_BYTES: u64 = 4096;
const CLIENTS_MAX: usize = 64;

/// What a client wants done to the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Kill,
    Terminate,
}

/// The listening task.
#[derive(Debug)]
pub(super) struct Control {
    task: tokio::task::JoinHandle<()>,
    closing: CancellationToken,
}

/// Listens in the working directory: its name is short whatever the directory's is.
pub(super) fn serve(orders: mpsc::Sender<Order>, stage: watch::Receiver<Stage>) -> anyhow::Result<Control> {
    let _ = std::fs::remove_file(CONTROL_SOCKET);
    let listener = UnixListener::bind(CONTROL_SOCKET).context("listen on the control socket")?;
    let closing = CancellationToken::new();
    let task = tokio::spawn(accept(listener, orders, stage, closing.clone()));
    Ok(Control { task, closing })
}

impl Control {
    /// Lets clients read their last answer.
    pub(super) async fn finish(self, patience: Duration) {
        self.closing.cancel();
        let _ = timeout(patience, self.task).await;
    }
}

async fn accept(
    listener: UnixListener,
    orders: mpsc::Sender<Order>,
    stage: watch::Receiver<Stage>,
    closing: CancellationToken,
) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            accepted = listener.accept(), if clients.len() < CLIENTS_MAX => match accepted {
                Ok((stream, _)) => { clients.spawn(answer(stream, orders.clone(), stage.clone())); }
                // Out of open files: wait for a client to leave.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
    while clients.join_next().await.is_some() {}
}

/// One request, one answer.
async fn answer(stream: UnixStream, orders: mpsc::Sender<Order>, stage: watch::Receiver<Stage>) {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader).take(LINE_MAX_BYTES);
    if !matches!(reader.read_until(b'\n', &mut line).await, Ok(length) if length > 0) {
        return;
    }
    let reply = match serde_json::from_slice::<Request>(&line) {
        Ok(request) => {
            let mut rest = [0; 1];
            tokio::select! {
                reply = carry_out(request, &orders, stage) => reply,
                // The client left: nobody to answer.
                _ = reader.read(&mut rest) => return,
            }
        }
        Err(error) => Reply::Refused { error: error.to_string() },
    };
    if let Ok(mut bytes) = serde_json::to_vec(&reply) {
        bytes.push(b'\n');
        let _ = writer.write_all(&bytes).await;
    }
}

async fn carry_out(request: Request, orders: &mpsc::Sender<Order>, stage: watch::Receiver<Stage>) -> Reply {
    match request {
        Request::Status => reach(stage, |stage| !matches!(stage, Stage::Starting)).await,
        Request::Wait => reach(stage, |stage| matches!(stage, Stage::Over(_))).await,
        Request::Kill => {
            // A closed channel means that it is already over.
            let _ = orders.send(Order::Kill).await;
            reach(stage, |stage| matches!(stage, Stage::Over(_))).await
        }
        Request::Terminate => {
            let _ = orders.send(Order::Terminate).await;
            reach(stage, |stage| !matches!(stage, Stage::Starting)).await
        }
        Request::Usage => Reply::Refused { error: "nothing measures yet".to_owned() },
    }
}

async fn reach(mut stage: watch::Receiver<Stage>, enough: impl FnMut(&Stage) -> bool) -> Reply {
    match stage.wait_for(enough).await.map(|stage| stage.clone()) {
        Ok(Stage::Running(held)) => Reply::Running(held),
        Ok(Stage::Over(exit)) => Reply::Exited(exit),
        Ok(Stage::Starting) | Err(_) => Reply::Refused { error: "the shim is ending".to_owned() },
    }
}
