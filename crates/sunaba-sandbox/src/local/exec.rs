//! One more process in a running sandbox.
//!
//! Its three streams are pipes that go by way of the shim to the guest as open
//! files: what it says passes through nobody's memory but ours, and no more of
//! it is kept than was asked for.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::{Uid, fchown, pipe2};
use sunaba_types::SandboxId;
use sunaba_types::shim::{Reply, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::control;
use crate::{Error, ExecRequest, ExecResult};

/// How much longer than its time a process may take to be killed and reported.
const KILL_PATIENCE: Duration = Duration::from_secs(15);
/// How long the last of the output may take after the end; what was left behind may hold the pipe open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

struct Streams {
    input: Sender,
    output: Receiver,
    errors: Receiver,
    theirs: [OwnedFd; 3],
}

pub(super) async fn exec(
    dir: &Path,
    id: &SandboxId,
    owner_uid: Option<u32>,
    request: ExecRequest,
) -> Result<ExecResult, Error> {
    if request.command.is_empty() {
        return Err(Error::Refused("nothing to run: the command is empty".to_owned()));
    }
    let Streams { mut input, output, errors, theirs } =
        streams(owner_uid).map_err(Error::backend("make the pipes of a process"))?;
    // Whatever is left of the three ends with this call.
    let mut feeding = JoinSet::new();
    feeding.spawn(async move {
        // One that does not read its input may close it.
        let _ = input.write_all(&request.input).await;
    });
    let mut keeping = JoinSet::new();
    let stdout = keep(&mut keeping, output, request.output_max);
    let stderr = keep(&mut keeping, errors, request.output_max);

    let ask = Request::Exec {
        command: request.command,
        env: request.env,
        timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
    };
    let files: Vec<_> = theirs.iter().map(OwnedFd::as_fd).collect();
    let limit = request.timeout.saturating_add(KILL_PATIENCE);
    let reply = timeout(limit, control::ask_with(dir, &ask, &files)).await;
    drop(files);
    drop(theirs);
    let drained = async { while keeping.join_next().await.is_some() {} };
    let _ = timeout(LAST_WORDS, drained).await;
    match reply {
        Ok(Ok(Reply::ExecExited { code, signal, timed_out })) => {
            let (stdout, cut_stdout) = take(&stdout);
            let (stderr, cut_stderr) = take(&stderr);
            let truncated = cut_stdout || cut_stderr;
            Ok(ExecResult { code, signal, timed_out, stdout, stderr, truncated })
        }
        Ok(Ok(Reply::Refused { error })) => Err(Error::Refused(error)),
        Ok(Ok(_)) => Err(Error::AlreadyEnded(id.clone())),
        Ok(Err(error)) => Err(Error::backend("ask the shim to run a process")(error)),
        Err(_) => Err(Error::Timeout {
            id: id.clone(),
            what: "ending a process whose time was over",
            seconds: KILL_PATIENCE.as_secs(),
        }),
    }
}

fn streams(owner_uid: Option<u32>) -> io::Result<Streams> {
    let (in_read, in_write) = pipe2(OFlag::O_CLOEXEC)?;
    let (out_read, out_write) = pipe2(OFlag::O_CLOEXEC)?;
    let (err_read, err_write) = pipe2(OFlag::O_CLOEXEC)?;
    let theirs = [in_read, out_write, err_write];
    if let Some(uid) = owner_uid {
        // Programs open /dev/stdout by name, which asks whose the pipe is.
        for end in &theirs {
            fchown(end, Some(Uid::from_raw(uid)), None)?;
        }
    }
    Ok(Streams {
        input: Sender::from_owned_fd(in_write)?,
        output: Receiver::from_owned_fd(out_read)?,
        errors: Receiver::from_owned_fd(err_read)?,
        theirs,
    })
}

/// What was said so far, and whether more was said than is kept.
type Kept = Arc<Mutex<(Vec<u8>, bool)>>;

/// Keeps the beginning of a stream; the rest is read and dropped.
fn keep(tasks: &mut JoinSet<()>, mut stream: Receiver, limit: usize) -> Kept {
    let kept = Kept::default();
    let keeping = Arc::clone(&kept);
    tasks.spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let mut kept = keeping.lock().unwrap_or_else(PoisonError::into_inner);
            let room = limit.saturating_sub(kept.0.len());
            kept.0.extend_from_slice(&buffer[..length.min(room)]);
            kept.1 |= length > room;
        }
    });
    kept
}

fn take(kept: &Kept) -> (Vec<u8>, bool) {
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
}
