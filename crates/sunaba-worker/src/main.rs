//! `sunaba-worker`: chooses the part to be.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use sunaba_types::shim::{DOOR_DIR_INSIDE, DOOR_SOCKET};
use sunaba_worker::{bridge, guest, launch, shim, work};

#[derive(Debug, Parser)]
#[command(name = "sunaba-worker", version, about = "What runs in a Sunaba sandbox, and what holds one")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Hold one local sandbox: start it, keep its output, record its end
    Shim {
        /// The sandbox's directory
        #[arg(long)]
        dir: PathBuf,
    },
    /// Give up every privilege and become bubblewrap (started by the shim)
    Launch {
        /// The sandbox's directory
        #[arg(long)]
        dir: PathBuf,
        /// The open file to which bubblewrap tells the sandbox's first process
        #[arg(long)]
        info_fd: i32,
    },
    /// Open the tables of a sandbox's ipc namespace and hand them over on standard input (started by the shim)
    Tables {
        /// A process of that namespace
        #[arg(long)]
        pid: i32,
    },
    /// Keep the bridge alive and run a command (the first program inside)
    Guest {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run one more command as the head of everything it starts (started by the guest)
    Hold {
        /// After so many milliseconds, kill it with everything it started
        #[arg(long)]
        within_ms: Option<u64>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Carry connections to the server and hold them while it is away
    Bridge {
        /// Where to listen; without it the listening socket is standard input
        #[arg(long)]
        listen: Option<String>,
        /// The server's socket
        #[arg(long, default_value_os_t = PathBuf::from(DOOR_DIR_INSIDE).join(DOOR_SOCKET))]
        door: PathBuf,
    },
    /// Drive the agent and report to the server
    Work,
}

fn main() -> ExitCode {
    let part = Arguments::parse().part;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        .init();
    let result = match part {
        Part::Shim { dir } => shim::run(&dir).map(|()| ExitCode::SUCCESS),
        Part::Launch { dir, info_fd } => launch::run(&dir, info_fd).map(|never| match never {}),
        Part::Tables { pid } => shim::hand_over_tables(pid).map(|()| ExitCode::SUCCESS),
        Part::Guest { command } => guest::run(&command),
        Part::Hold { within_ms, command } => guest::hold(&command, within_ms.map(Duration::from_millis)),
        Part::Bridge { listen, door } => bridge::run(listen.as_deref(), door).map(|()| ExitCode::SUCCESS),
        Part::Work => work::run(),
    };
    result.unwrap_or_else(|error| {
        // Plain words: the shim passes on what its launcher said last as the reason of a failed start.
        let _ = writeln!(std::io::stderr(), "sunaba-worker: {error:#}");
        ExitCode::FAILURE
    })
}
