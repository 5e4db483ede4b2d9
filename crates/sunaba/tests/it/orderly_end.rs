//! An orderly life leaves nothing on the machine: no control group, no mount, no loop device, no process.

use std::process::Stdio;
use std::time::Duration;

use crate::leavings::left;
use crate::support::{Server, repository, sunaba, until, wait};

const SCRIPT: &str = "
- text: I wait.
  tools:
    - shell: sleep 0.5
- text: Done.
";

#[test]
fn the_last_sandbox_takes_with_it_what_all_had_in_common() {
    let mut server = Server::start(&[]);
    let files = tempfile::tempdir().unwrap();
    let repo = repository(files.path());
    let script = files.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let mut runs: Vec<_> = (0..2)
        .map(|_| {
            sunaba(server.data.path())
                .arg("run")
                .arg("--repo")
                .arg(&repo)
                .args(["--model", &format!("script:{}", script.display()), "Wait"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    until("a sandbox's process", || left(server.data.path()).iter().any(|one| one.starts_with("process")));
    for run in &mut runs {
        assert!(wait(run).success(), "{}", server.log());
    }
    until("the end of everything, while the server goes on", || left(server.data.path()).is_empty());
    assert!(server.terminate().success());
    assert_eq!(left(server.data.path()), Vec::<String>::new());
}

#[test]
fn a_server_that_stops_while_it_looks_at_its_host_leaves_nothing() {
    // At its start it tries what the host can do; the stop comes at several moments of that.
    for pause_ms in [0, 15, 30, 60, 120] {
        let mut server = Server::start(&[]);
        std::thread::sleep(Duration::from_millis(pause_ms));
        assert!(server.terminate().success());
        assert_eq!(left(server.data.path()), Vec::<String>::new(), "stopped after {pause_ms} ms");
    }
}
