//! The main job in real sandboxes. Needs `sunaba-worker` beside `sunaba`, bubblewrap and git; fails
//! loudly without them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{DEADLINE, Ran, Server, git, http, repository, sunaba, until, wait};

const SCRIPT: &str = "
- text: I count first.
  tools:
    - shell: for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.25; done
- expect:
    - request_contains: please also b.txt
  tools:
    - write: {path: a.txt, content: \"a\\n\"}
    - write: {path: b.txt, content: \"b\\n\"}
- text: Done.
";

/// Ends the background server of a data directory when the test ends.
pub(crate) struct Background<'a>(pub(crate) &'a Path);

impl Background<'_> {
    fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.0.join("server.json")).ok()?;
        let announced: Value = serde_json::from_str(&text).ok()?;
        Some(Pid::from_raw(i32::try_from(announced["pid"].as_i64()?).ok()?))
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill(pid, Signal::SIGTERM);
            until("the end of the background server", || kill(pid, None).is_err());
        }
        crate::leavings::clear(self.0);
    }
}

pub(crate) fn data_dir() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("sunaba.yaml"), "listen: 127.0.0.1:0\n").unwrap();
    data
}

#[test]
fn run_does_the_main_job_and_typed_words_steer_it() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    let script = data.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::write(repo.join("scratch"), "not committed").unwrap();
    let ran = Ran::with_input(
        sunaba(data.path())
            .arg("run")
            .arg("--repo")
            .arg(&repo)
            .args(["--model", &format!("script:{}", script.display())])
            .args(["--stdin", "Count, then write"]),
        "please also b.txt\n",
    );
    ran.expect_code(0);
    assert!(ran.stderr.contains("has uncommitted changes"), "{}", ran.stderr);
    assert!(ran.stdout.contains("[sent]") && ran.stdout.contains("[read]"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  │ tick 6\n"), "{}", ran.stdout);
    let branch = ran.stdout.lines().find_map(|line| line.strip_prefix("branch  ")).unwrap().to_owned();
    assert_eq!(git(&repo, &["show", &format!("{branch}:b.txt")]), "b\n");
    assert_eq!(git(&repo, &["branch", "--show-current"]), "main\n");
    let diff = Ran::of(sunaba(data.path()).args(["diff", "last"]));
    assert!(diff.expect_code(0).stdout.contains("+++ b/a.txt"), "{}", diff.stdout);
    Ran::of(sunaba(data.path()).args(["verify", "last"])).expect_code(0);
}

#[test]
fn a_script_that_is_not_met_fails_the_run() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    let script = data.path().join("script.yaml");
    std::fs::write(&script, "- expect: [{request_contains: never said}]\n  text: x\n").unwrap();
    let ran = Ran::of(sunaba(data.path()).arg("run").arg("--repo").arg(&repo).args([
        "--model",
        &format!("script:{}", script.display()),
        "Do it",
    ]));
    ran.expect_code(1);
    assert_eq!(ran.stdout.matches("never said").count(), 1, "told once: {}", ran.stdout);
    std::fs::write(&script, "- text: x\n- txt: y\n").unwrap();
    let broken = Ran::of(sunaba(data.path()).arg("run").arg("--repo").arg(&repo).args([
        "--model",
        &format!("script:{}", script.display()),
        "Do it",
    ]));
    broken.expect_code(2);
    assert!(broken.stderr.contains(&format!("{}:2:", script.display())), "{}", broken.stderr);
}

#[test]
fn two_that_start_at_once_share_one_server_and_take_no_input_for_words() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    let start = || {
        let mut command = sunaba(data.path());
        command.arg("run").arg("--repo").arg(&repo).args(["--model", "script:default", "--detach", "Do it"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (first, second) = (start(), start());
    for child in [first, second] {
        Ran::from(child.wait_with_output().unwrap()).expect_code(0);
    }
    let all: Value =
        serde_json::from_str(&Ran::of(sunaba(data.path()).args(["ps", "--all", "--json"])).stdout).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 2);
    for sandbox in all.as_array().unwrap() {
        let id = sandbox["id"].as_str().unwrap();
        let ran = Ran::with_input(sunaba(data.path()).args(["attach", id]), "not for the agent\n");
        ran.expect_code(0);
        assert!(!ran.stdout.contains("not for the agent"), "{}", ran.stdout);
    }
    let stopped = Ran::of(sunaba(data.path()).args(["serve", "--stop"]));
    assert!(stopped.expect_code(0).stdout.contains("stopped the server at"), "{}", stopped.stdout);
    Ran::of(sunaba(data.path()).args(["serve", "--stop"])).expect_code(3);
}

#[test]
fn the_demonstration_runs_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Ran::of(
        sunaba(dir.path())
            .args(["demo", "--exit", "--dir"])
            .arg(dir.path().join("demo"))
            .stdin(Stdio::null()),
    );
    ran.expect_code(0);
    assert!(ran.stdout.contains("│ ok      says goodbye"), "{}", ran.stdout);
    assert!(ran.stdout.contains("[sent]") && ran.stdout.contains("[read]"), "{}", ran.stdout);
    assert!(ran.stdout.contains("✔ completed"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  +check \"says goodbye\""), "{}", ran.stdout);
}

#[test]
fn an_interrupted_demonstration_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = sunaba(dir.path());
    command.args(["demo", "--dir"]).arg(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut demo = command.spawn().unwrap();
    let data = dir.path().join("data");
    let sandboxes = data.join("sandboxes");
    let any = || {
        std::fs::read_dir(&sandboxes)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join("shim.json").exists()))
    };
    until("a running sandbox", any);
    kill(Pid::from_raw(demo.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(wait(&mut demo).code(), Some(130));
    assert!(!any(), "the sandbox is gone");
    assert!(!data.join("server.json").exists(), "the server ended in order");
}

/// The token that a sandbox was given, from the file that only its server reads.
fn token_of(server: &Server, id: &str) -> Option<String> {
    let spec =
        std::fs::read_to_string(server.data.path().join("sandboxes").join(id).join("spec.json")).ok()?;
    let start = spec.find("sun_sandbox_")?;
    Some(spec[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect())
}

/// What the server says to somebody who has a sandbox's token.
async fn asked_with(server: &Server, id: &str, token: &str) -> (u16, String) {
    let url = format!("{}/api/v1/sandboxes/{id}/events", server.url);
    let body = serde_json::json!({ "event_type": "agent.heartbeat", "event_data": {} });
    let answer = http().post(url).bearer_auth(token).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_an_adopted_sandbox_ends_with_it() {
    let mut server = Server::start(&[]);
    let repo = repository(server.data.path());
    let script = server.data.path().join("script.yaml");
    std::fs::write(&script, "- tools:\n    - shell: sleep 600\n").unwrap();
    let mut run = sunaba(server.data.path());
    run.args(["run", "--detach", "--egress", "none", "--repo"]).arg(&repo);
    let ran = Ran::of(run.args(["--model", &format!("script:{}", script.display()), "Sleep"]));
    let id = ran.expect_code(0).stdout.trim().to_owned();
    let state = |server: &Server| server.json(&["show", &id])["sandbox"]["state"].clone();
    until("it runs", || state(&server) == "running");
    let token = token_of(&server, &id).expect("it has a token");
    assert_eq!(asked_with(&server, &id, &token).await.0, 200);

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let address = server.url.trim_start_matches("http://").to_owned();
    server.child = sunaba(server.data.path())
        .args(["serve", "--listen", &address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the server", || server.run(&["ps"]).code == Some(0));
    assert_eq!(asked_with(&server, &id, &token).await.0, 200, "it goes on with the token that it has");
    server.run(&["stop", &id]).expect_code(0);
    let started = Instant::now();
    loop {
        let (status, words) = asked_with(&server, &id, &token).await;
        if status == 401 {
            assert!(words.contains("revoked"), "{words}");
            break;
        }
        assert!(started.elapsed() < DEADLINE, "the token still opens something: {status} {words}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until("nothing is left", || token_of(&server, &id).is_none());
}
