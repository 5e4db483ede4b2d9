//! Holds a server program for as long as this process lives.
//!
//! A small shell holds the server and listens to this process through a pipe.
//! However this process ends, also by a panic or a kill, the pipe closes; the
//! shell then stops the server and removes its directory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Does what it is told, one word a line, and cleans up when nobody is left to tell it anything.
/// `kill` takes the server's children too: a new server waits for them otherwise.
const SCRIPT: &str = r#"
directory=$1; end=$2; shift 2
trap '' INT TERM HUP
pid=
while read -r word; do
    case $word in
    start) "$@" >>"$directory/log" 2>&1 & pid=$! ;;
    kill)
        children=$(cat "/proc/$pid/task/$pid/children")
        kill -KILL "$pid" $children
        wait "$pid"
        for child in $children; do
            while [ -n "$(tr -d '\0' 2>/dev/null <"/proc/$child/cmdline")" ]; do sleep 0.02; done
        done ;;
    pause) kill -STOP "$pid" $(cat "/proc/$pid/task/$pid/children") ;;
    resume) kill -CONT "$pid" $(cat "/proc/$pid/task/$pid/children") ;;
    esac
    echo done
done
[ -z "$pid" ] || { kill -CONT "$pid"; kill -"$end" "$pid"; wait "$pid"; }
rm -rf "$directory"
"#;

/// A held server; it ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    directory: PathBuf,
    shell: Mutex<Shell>,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// Takes over the directory. The command runs when it is told `start`; `end` is the signal that ends it.
    pub(crate) fn new(directory: PathBuf, command: &[String], end: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "keeper"])
            .arg(&directory)
            .arg(end)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The shell's own words about processes that were killed.
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("asked for"));
        Self { directory, shell: Mutex::new(Shell { child, orders, answers }) }
    }

    /// Where the server keeps what it has.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the server printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Tells it `start`, `kill`, `pause` or `resume`, and waits until that is done.
    pub(crate) fn tell(&self, word: &str) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = shell.orders.as_mut().expect("open until it is dropped");
        writeln!(orders, "{word}").expect("the keeper lives");
        let mut answer = String::new();
        shell.answers.read_line(&mut answer).expect("the keeper answers");
        assert_eq!(answer, "done\n");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        shell.orders = None;
        let _ = shell.child.wait();
    }
}

/// A port of loopback that nobody has right now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
