//! Answers on the control socket, several clients at once.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use sunaba_types::shim::{CONTROL_SOCKET, Reply, Request};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Stage;
use super::meter::Meter;

/// Longest request, and longest one that brings files along: a command line with its environment.
const LINE_MAX_BYTES: usize = 4096;
const LONG_LINE_MAX_BYTES: usize = 1024 * 1024;
/// Standard input, output and error.
const FILES: usize = 3;
const CLIENTS_MAX: usize = 64;
/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process whose time is over may take to be killed.
const EXEC_KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client wants done to the sandbox.
#[derive(Debug)]
pub(super) enum Order {
    Kill,
    Terminate,
    /// Start one more process.
    Exec(Exec),
    /// End it, with everything it started.
    EndExec(u64),
}

/// One more process.
#[derive(Debug)]
pub(super) struct Exec {
    pub(super) id: u64,
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) streams: [OwnedFd; FILES],
    /// Told how it ended.
    pub(super) ended: oneshot::Sender<Reply>,
}

/// What every client is answered from.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) stage: watch::Receiver<Stage>,
    pub(super) meter: Arc<Meter>,
    pub(super) next_exec: Arc<AtomicU64>,
}

/// The listening task.
#[derive(Debug)]
pub(super) struct Control {
    task: tokio::task::JoinHandle<()>,
    closing: CancellationToken,
}

/// Listens in the working directory: its name is short whatever the directory's is.
pub(super) fn serve(desk: Desk) -> anyhow::Result<Control> {
    let _ = std::fs::remove_file(CONTROL_SOCKET);
    let listener = UnixListener::bind(CONTROL_SOCKET).context("listen on the control socket")?;
    let closing = CancellationToken::new();
    let task = tokio::spawn(accept(listener, desk, closing.clone()));
    Ok(Control { task, closing })
}

impl Control {
    /// Lets clients read their last answer.
    pub(super) async fn finish(self, patience: Duration) {
        self.closing.cancel();
        let _ = timeout(patience, self.task).await;
    }
}

async fn accept(listener: UnixListener, desk: Desk, closing: CancellationToken) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            accepted = listener.accept(), if clients.len() < CLIENTS_MAX => match accepted {
                Ok((stream, _)) => { clients.spawn(answer(stream, desk.clone())); }
                // Out of open files: wait for a client to leave.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
        }
    }
    while clients.join_next().await.is_some() {}
}

/// One request, one answer.
async fn answer(mut stream: UnixStream, desk: Desk) {
    let Ok(Ok((line, files))) = timeout(REQUEST_TIMEOUT, hear(&stream)).await else { return };
    let reply = match serde_json::from_slice::<Request>(&line) {
        Ok(request) => match carry_out(request, files, &desk, &stream).await {
            Some(reply) => reply,
            // The client left: nobody to answer.
            None => return,
        },
        Err(error) => refused(error.to_string()),
    };
    if let Ok(mut bytes) = serde_json::to_vec(&reply) {
        bytes.push(b'\n');
        let _ = stream.write_all(&bytes).await;
    }
}

/// Reads one line and the files beside it.
async fn hear(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut files) = (Vec::new(), Vec::new());
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive(stream, &mut line, &mut files)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok((line, files));
        }
        let most = if files.is_empty() { LINE_MAX_BYTES } else { LONG_LINE_MAX_BYTES };
        if line.len() > most || files.len() > FILES {
            return Ok((Vec::new(), Vec::new()));
        }
    }
}

fn receive(stream: &UnixStream, line: &mut Vec<u8>, files: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut bytes = [0; 8 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let read =
        recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC)?
            .bytes;
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    line.extend_from_slice(&bytes[..read]);
    Ok(read)
}

/// Returns when the client has nothing more to hear.
async fn left(stream: &UnixStream) {
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

async fn carry_out(request: Request, files: Vec<OwnedFd>, desk: &Desk, stream: &UnixStream) -> Option<Reply> {
    if let Request::Exec { command, env, timeout_ms } = request {
        return exec(command, env, Duration::from_millis(timeout_ms), files, desk, stream).await;
    }
    tokio::select! {
        reply = simple(request, desk) => Some(reply),
        () = left(stream) => None,
    }
}

async fn simple(request: Request, desk: &Desk) -> Reply {
    let reach_end = || reach(desk.stage.clone(), |stage| matches!(stage, Stage::Over(_)));
    let reach_start = || reach(desk.stage.clone(), |stage| !matches!(stage, Stage::Starting));
    match request {
        Request::Status => reach_start().await,
        Request::Wait => reach_end().await,
        Request::Kill => {
            // A closed channel means that it is already over.
            let _ = desk.orders.send(Order::Kill).await;
            reach_end().await
        }
        Request::Terminate => {
            let _ = desk.orders.send(Order::Terminate).await;
            reach_start().await
        }
        Request::Usage => match reach_start().await {
            Reply::Running(held) => {
                let meter = Arc::clone(&desk.meter);
                let measured = tokio::task::spawn_blocking(move || meter.usage(&held)).await;
                measured.map_or_else(|error| refused(error.to_string()), Reply::Usage)
            }
            other => other,
        },
        Request::Exec { .. } => refused("a process needs its three streams".to_owned()),
    }
}

/// Runs one more process to its end, which is the end of its time or the client's leaving at the latest.
async fn exec(
    command: Vec<String>,
    env: BTreeMap<String, String>,
    limit: Duration,
    files: Vec<OwnedFd>,
    desk: &Desk,
    stream: &UnixStream,
) -> Option<Reply> {
    let Ok(streams) = <[OwnedFd; FILES]>::try_from(files) else {
        return Some(refused("a process needs its three streams".to_owned()));
    };
    let id = desk.next_exec.fetch_add(1, Ordering::Relaxed);
    let (ended, mut end) = oneshot::channel();
    let order = Order::Exec(Exec { id, command, env, streams, ended });
    if desk.orders.send(order).await.is_err() {
        return Some(refused("the sandbox is over".to_owned()));
    }
    let over = || refused("the sandbox ended while the process ran".to_owned());
    tokio::select! {
        reply = &mut end => return Some(reply.unwrap_or_else(|_| over())),
        () = sleep(limit) => {}
        () = left(stream) => {
            let _ = desk.orders.send(Order::EndExec(id)).await;
            return None;
        }
    }
    let _ = desk.orders.send(Order::EndExec(id)).await;
    Some(match timeout(EXEC_KILL_TIMEOUT, end).await {
        Ok(Ok(Reply::ExecExited { code, signal, .. })) => Reply::ExecExited { code, signal, timed_out: true },
        Ok(Ok(other)) => other,
        Ok(Err(_)) => over(),
        Err(_) => refused("a process whose time was over could not be killed".to_owned()),
    })
}

async fn reach(mut stage: watch::Receiver<Stage>, enough: impl FnMut(&Stage) -> bool) -> Reply {
    match stage.wait_for(enough).await.map(|stage| stage.clone()) {
        Ok(Stage::Running(held)) => Reply::Running(held),
        Ok(Stage::Over(exit)) => Reply::Exited(exit),
        Ok(Stage::Starting) | Err(_) => refused("the shim is ending".to_owned()),
    }
}

pub(super) const fn refused(error: String) -> Reply {
    Reply::Refused { error }
}
