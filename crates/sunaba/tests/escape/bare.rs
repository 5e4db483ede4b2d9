//! Makes attempts without their guard.

use std::process::{Command, Stdio};

use crate::attempt::Without;
use crate::decoys::{Decoys, Facts, as_user, is_root};
use crate::outcome::{Results, parse};

/// Runs all attempts of one kind; none where this host cannot.
pub(crate) fn run(decoys: &Decoys, without: Without, facts: &Facts) -> Option<Results> {
    let lib = &facts["LIB"];
    let mut command = match without {
        Without::User | Without::Admin => as_user("bash"),
        Without::Root if is_root() => unshared(Command::new("unshare")),
        Without::Root => return None,
        Without::NamespaceRoot => {
            let mut command = as_user("unshare");
            command.args(["--user", "--map-root-user", "--ipc", "--uts", "--net", "--cgroup"]);
            unshared(command)
        }
        Without::Bubblewrap => {
            let scratch = &facts["TMPDIR"];
            let mut command = as_user("bwrap");
            command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
            command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
            command.args(["--bind", scratch, scratch, "--", "bash"]);
            command
        }
        Without::Server if facts["SERVER_USER"] == "0" => Command::new("bash"),
        Without::Server => as_user("bash"),
        Without::Victim => unreachable!("these run in a sandbox"),
    };
    command.env_clear().envs(facts);
    if without == Without::NamespaceRoot {
        command.arg(format!("{lib}/namespace.sh")).env("CANARY", &decoys.canary);
    } else {
        command.args([&format!("{lib}/driver.sh"), lib, "without", without.word()]);
    }
    if matches!(without, Without::Root | Without::NamespaceRoot) {
        // None of them sees what another mounted.
        command.env("WRAP", "unshare --mount --propagation private");
    }
    command.current_dir(decoys.path("scratch"));
    Some(finished(command, without.word()))
}

/// In a mount and a pid namespace of its own, whose processes end with it.
fn unshared(mut command: Command) -> Command {
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["--", "bash"]);
    command
}

/// Runs a directory of attempts as the ordinary user, with these facts.
pub(crate) fn run_as_user(decoys: &Decoys, facts: &Facts, side: &str, directory: &str) -> Results {
    let lib = &facts["LIB"];
    let mut command = as_user("bash");
    command.args([&format!("{lib}/driver.sh"), lib, side, directory]);
    command.env_clear().envs(facts).current_dir(decoys.path("scratch"));
    finished(command, directory)
}

fn finished(mut command: Command, directory: &str) -> Results {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains(&format!("FINISHED {directory}")),
        "the attempts without their guard came to no end: {directory}\n{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    parse(&said)
}
