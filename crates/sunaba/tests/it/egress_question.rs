//! `sunaba run` asks at a project's first use what its sandboxes may reach, on a terminal, and only once.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use nix::pty::openpty;
use serde_json::{Value, json};

use crate::support::{Ran, Server, repository, sunaba, until, wait};

const QUESTION: &str = "Let sandboxes of this project reach public package registries? [Y/n]";

/// A person at a terminal: what appears on it, and the keys.
struct Terminal {
    keys: std::fs::File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// A terminal, and the two ends of it that a program gets.
    fn new() -> (Self, OwnedFd, OwnedFd) {
        let pty = openpty(None, None).unwrap();
        let (keys, shown) = (std::fs::File::from(pty.master), Arc::new(Mutex::new(String::new())));
        let (mut screen, shows) = (keys.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut piece = [0; 1024];
            // An error is the end: nobody has the other side any more.
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                shows.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        let again = pty.slave.try_clone().unwrap();
        (Self { keys, shown }, pty.slave, again)
    }

    fn shows(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }
}

/// A repository of this name beside the others.
fn named(server: &Server, name: &str) -> PathBuf {
    let dir = server.data.path().join(name);
    std::fs::create_dir(&dir).unwrap();
    repository(&dir)
}

fn task(server: &Server, repo: &Path, more: &[&str]) -> std::process::Command {
    let script = server.data.path().join("script.yaml");
    std::fs::write(&script, "- text: Done.\n").unwrap();
    let mut command = sunaba(server.data.path());
    command.args(["run", "--detach", "--repo"]).arg(repo);
    command.args(["--model", &format!("script:{}", script.display())]).args(more).arg("Do it");
    command
}

/// Gives a task at a terminal and answers the question if there is an answer; what the terminal showed.
fn run_at_terminal(server: &Server, repo: &Path, more: &[&str], answer: Option<&str>) -> String {
    let (mut terminal, stdin, stderr) = Terminal::new();
    let mut command = task(server, repo, more);
    let mut child =
        command.stdin(Stdio::from(stdin)).stderr(Stdio::from(stderr)).stdout(Stdio::piped()).spawn().unwrap();
    // Its ends of the terminal are the child's alone now.
    drop(command);
    if let Some(answer) = answer {
        until("the question", || terminal.shows(QUESTION));
        assert!(child.try_wait().unwrap().is_none(), "it waits for an answer");
        terminal.keys.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    let status = wait(&mut child);
    until("its last words", || more.contains(&"--json") || terminal.shows(" on "));
    let shown = terminal.shown.lock().unwrap().clone();
    assert_eq!(status.code(), Some(0), "{shown}");
    finish(server);
    shown
}

/// Waits for the end of what was started: no sandbox outlives its test.
fn finish(server: &Server) {
    server.run(&["attach", "last"]).expect_code(0);
}

fn egress(server: &Server, repo: &Path) -> Value {
    server.json(&["project", "show", repo.to_str().unwrap()])["settings"]["egress"].clone()
}

#[test]
fn an_answer_is_remembered_and_nobody_is_asked_twice() {
    let server = Server::start(&[]);
    for (name, answer, preset) in [
        ("refused", "n", "none"),
        ("agreed", "y", "registries"),
        ("entered", "", "registries"),
        ("odd", "x", "none"),
    ] {
        let repo = named(&server, name);
        let shown = run_at_terminal(&server, &repo, &[], Some(answer));
        assert!(shown.contains(&format!("may reach: {preset}; remembered")), "{name}: {shown}");
        assert_eq!(egress(&server, &repo), json!({ "preset": preset }), "{name}");
    }
    for (name, preset) in [("refused", "none"), ("agreed", "registries")] {
        let repo = server.data.path().join(name).join("repo");
        let shown = run_at_terminal(&server, &repo, &[], None);
        assert!(!shown.contains("[Y/n]") && !shown.contains("may reach"), "{name}: {shown}");
        assert_eq!(egress(&server, &repo)["preset"], preset);
    }
}

#[test]
fn nobody_is_asked_who_has_said_so_or_cannot_answer() {
    let server = Server::start(&[]);
    let said = named(&server, "said");
    let shown = run_at_terminal(&server, &said, &["--egress", "registries"], None);
    assert!(!shown.contains("[Y/n]"), "{shown}");
    assert_eq!(egress(&server, &said)["preset"], "registries");

    let (program, piped) = (named(&server, "program"), named(&server, "piped"));
    let shown = run_at_terminal(&server, &program, &["--json"], None);
    assert!(!shown.contains("[Y/n]"), "{shown}");
    let ran = Ran::with_input(&mut task(&server, &piped, &[]), "y\n");
    ran.expect_code(0);
    assert!(ran.stderr.contains("reach no network") && !ran.stderr.contains("[Y/n]"), "{}", ran.stderr);
    finish(&server);
    for repo in [program, piped] {
        assert_eq!(egress(&server, &repo), Value::Null, "nothing was decided: the next one is asked");
    }
    let shown = run_at_terminal(&server, &server.data.path().join("piped/repo"), &[], Some("y"));
    assert!(shown.contains("may reach: registries"), "{shown}");
}
