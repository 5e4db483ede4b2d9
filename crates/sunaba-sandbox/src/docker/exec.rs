//! One more process in a running container.
//!
//! It runs below `sunaba-worker hold`, which ends it and everything it started when its time is over: that
//! needs neither this server nor the daemon to be there at that moment.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures::StreamExt as _;
use sunaba_types::SandboxId;
use sunaba_types::shim::{WORKER_INSIDE, WORKSPACE_INSIDE};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::engine::{Engine, status, words};
use super::{spec, state};
use crate::{Error, ExecRequest, ExecResult};

/// How long after its time the process is waited for: the daemon takes its time to tell.
const GRACE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// The daemon's way to say that the process could not be started.
const NOT_STARTED: i64 = 126;

/// Runs it and answers when it is over.
pub(super) async fn exec(engine: &Engine, id: &SandboxId, request: ExecRequest) -> Result<ExecResult, Error> {
    let docker = engine.docker().await?;
    let began = Instant::now();
    let limit = request.timeout + GRACE;
    let created = match docker.create_exec(&spec::name(id), config(&request)).await {
        Ok(created) => created,
        Err(error) if matches!(status(&error), Some(404)) => return Err(Error::NotFound(id.clone())),
        Err(error) if matches!(status(&error), Some(409)) => return Err(Error::NotStarted(id.clone())),
        Err(error) => return Err(super::engine::failed("make a process in the container")(error)),
    };
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let started =
        engine.ask("start a process in the container", docker.start_exec(&created.id, Some(options)));
    let StartExecResults::Attached { mut output, mut input } = started.await? else {
        return Err(Error::Unsupported("the daemon attaches to no process it starts".to_owned()));
    };
    let mut kept = Kept::new(request.output_max);
    let sending = async {
        // It may end without reading; then the daemon closes its side.
        let _ = input.write_all(&request.input).await;
        let _ = input.shutdown().await;
        std::future::pending::<()>().await;
    };
    let receiving = async {
        while let Some(piece) = output.next().await {
            match piece {
                Ok(piece) => kept.take(&piece),
                Err(error) => return Err(super::engine::failed("read a process's output")(error)),
            }
        }
        Ok(())
    };
    let both = async {
        tokio::select! {
            received = receiving => received,
            () = sending => Ok(()),
        }
    };
    let ended = timeout(limit, both).await;
    let over = began.elapsed() >= request.timeout;
    match ended {
        Ok(received) => received?,
        Err(_) => return Err(late(id, limit)),
    }
    let number = exit_number(engine, id, &created.id, began + limit).await?;
    let (code, signal) = state::split(number);
    let timed_out = over && signal == Some(9);
    Ok(ExecResult {
        code,
        signal,
        timed_out,
        stdout: kept.stdout,
        stderr: kept.stderr,
        truncated: kept.truncated,
    })
}

fn config(request: &ExecRequest) -> ExecConfig {
    let mut command = vec![
        WORKER_INSIDE.to_owned(),
        "hold".to_owned(),
        "--within-ms".to_owned(),
        request.timeout.as_millis().to_string(),
        "--".to_owned(),
    ];
    command.extend(request.command.iter().cloned());
    ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some(request.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        cmd: Some(command),
        working_dir: Some(WORKSPACE_INSIDE.to_owned()),
        ..ExecConfig::default()
    }
}

/// Waits until the daemon knows how it ended.
async fn exit_number(engine: &Engine, id: &SandboxId, exec: &str, deadline: Instant) -> Result<i64, Error> {
    let docker = engine.docker().await?;
    loop {
        let seen = docker.inspect_exec(exec).await;
        let seen = match seen {
            Ok(seen) => seen,
            // The container went meanwhile, and the process with it.
            Err(error) if status(&error) == Some(404) => return Ok(137),
            Err(error) => {
                return Err(Error::StartFailed { id: id.clone(), reason: words(&error) });
            }
        };
        match (seen.running, seen.exit_code) {
            (Some(false) | None, Some(number)) => return Ok(number),
            (Some(false) | None, None) => return Ok(NOT_STARTED),
            _ if Instant::now() >= deadline => return Err(late(id, GRACE)),
            _ => sleep(POLL).await,
        }
    }
}

fn late(id: &SandboxId, limit: Duration) -> Error {
    Error::Timeout { id: id.clone(), what: "the end of a process in it", seconds: limit.as_secs() }
}

/// What is kept of the two outputs.
#[derive(Debug)]
struct Kept {
    most: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self { most, stdout: Vec::new(), stderr: Vec::new(), truncated: false }
    }

    fn take(&mut self, piece: &LogOutput) {
        let (into, bytes) = match piece {
            LogOutput::StdErr { message } => (&mut self.stderr, message),
            LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => {
                (&mut self.stdout, message)
            }
        };
        let room = self.most.saturating_sub(into.len());
        self.truncated |= bytes.len() > room;
        into.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
