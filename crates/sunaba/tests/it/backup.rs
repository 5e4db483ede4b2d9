//! `sunaba backup` of a server at work, and `sunaba restore` on the other store and back. Needs what real sandboxes
//! need.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use sunaba_testkit::Postgres;

use crate::support::{Ran, Server, git, http, repository, sunaba, until};

const SCRIPT: &str = "
- tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

/// The program on this data directory and database, whatever store tests run on.
fn program(data: &Path, database: Option<&str>) -> Command {
    let mut command = sunaba(data);
    command.env_remove("DATABASE_URL").env_remove("SUNABA_SECRET_KEY");
    if let Some(url) = database {
        command.env("DATABASE_URL", url).env("SUNABA_SECRET_KEY_FILE", data.join("secret.key"));
    }
    command
}

fn serve(data: tempfile::TempDir, database: Option<&str>) -> Server {
    let mut command = program(data.path(), database);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    Server::of(command, data)
}

fn restore(data: &Path, file: &Path, database: Option<&str>) -> Ran {
    Ran::of(program(data, database).arg("restore").arg(file))
}

/// Keeps the key, which no backup has.
fn carry_key(from: &Path, to: &Path) {
    std::fs::copy(from.join("secret.key"), to.join("secret.key")).unwrap();
}

/// A server with a finished run and a secret; gives the run's branch.
fn worked(server: &Server) -> String {
    let data = server.data.path();
    let script = data.join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let repo = repository(data);
    let ran = Ran::of(program(data, None).arg("run").arg("--repo").arg(&repo).args([
        "--model",
        &format!("script:{}", script.display()),
        "Write a file with a rather long name for its branch",
    ]));
    ran.expect_code(0);
    let mut secret = program(data, None);
    secret.args(["project", "secret", "set"]).arg(&repo).arg("GIT_TOKEN");
    Ran::with_input(&mut secret, "geheim\n").expect_code(0);
    ran.stdout.lines().find_map(|line| line.strip_prefix("branch  ")).unwrap().to_owned()
}

/// Posts events without a pause until it is told to stop.
struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Writer {
    fn start(server: &Server) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (halt, count) = (Arc::clone(&stop), Arc::clone(&written));
        let address = format!("{}/api/v1/sandboxes/ext-1/events", server.url);
        let token = server.token();
        let task = tokio::spawn(async move {
            let client = http();
            while !halt.load(Ordering::Relaxed) {
                let n = count.load(Ordering::Relaxed);
                let body =
                    json!({ "event_type": "agent.message", "event_data": { "content": "more", "n": n } });
                let answer = client.post(&address).bearer_auth(&token).json(&body).send().await.unwrap();
                assert!(answer.status().is_success(), "{}", answer.status());
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, written, task }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

/// The run, its branch, its log and the secret are there.
fn assert_whole(server: &Server, branch: &str) {
    let data = server.data.path();
    let verified = server.run(&["verify", "--all"]);
    verified.expect_code(0);
    assert!(verified.stdout.lines().count() >= 2, "{}", verified.stdout);
    let mirrors: Vec<PathBuf> =
        std::fs::read_dir(data.join("git")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mirror = mirrors.iter().find(|path| path.extension().is_some_and(|end| end == "git")).unwrap();
    assert_eq!(git(mirror, &["show", &format!("{branch}:a.txt")]), "a\n");
    git(mirror, &["fsck", "--strict"]);
    let projects = server.json(&["project", "list"]);
    let project = projects[0]["id"].as_str().unwrap().to_owned();
    let names = server.run(&["project", "secret", "list", &project]);
    assert!(names.expect_code(0).stdout.contains("GIT_TOKEN"), "{}", names.stdout);
    let all: Value = server.json(&["ps", "--all"]);
    assert!(all.to_string().contains("completed"), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_server_at_work_is_restored_on_postgres_and_back_on_sqlite() {
    let files = tempfile::tempdir().unwrap();
    let first = serve(tempfile::tempdir().unwrap(), None);
    let branch = worked(&first);
    let (one, two) = (files.path().join("one.tar"), files.path().join("two.tar"));

    let writer = Writer::start(&first);
    until("the first events", || writer.written() > 20);
    let before = writer.written();
    let made = Ran::of(program(first.data.path(), None).arg("backup").arg("--out").arg(&one));
    made.expect_code(0);
    assert!(made.stdout.contains("1 mirrors") && made.stderr.contains("secret key is not in it"), "{made:?}");
    let now = writer.written();
    until("more events", || writer.written() > now);
    writer.stop().await;

    let url = Postgres::shared().database();
    let data = tempfile::tempdir().unwrap();
    let restored = restore(data.path(), &one, Some(&url));
    assert!(restored.expect_code(0).stdout.contains("every chain holds"), "{}", restored.stdout);
    let key = std::fs::read_to_string(first.data.path().join("secret.key")).unwrap();
    let archive = std::fs::read(&one).unwrap();
    for secret in [key.trim(), "geheim", first.token().as_str()] {
        assert!(!archive.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
    }
    carry_key(first.data.path(), data.path());
    let second = serve(data, Some(&url));
    assert_whole(&second, &branch);
    let head = second.json(&["verify", "ext-1"])["events"].as_u64().unwrap();
    assert!(head >= before, "{head} of {before} that were there before");

    let made = Ran::of(program(second.data.path(), Some(&url)).arg("backup").arg("--out").arg(&two));
    made.expect_code(0);
    let data = tempfile::tempdir().unwrap();
    restore(data.path(), &two, None).expect_code(0);
    carry_key(first.data.path(), data.path());
    let third = serve(data, None);
    assert_whole(&third, &branch);
    assert_eq!(third.json(&["verify", "ext-1"])["events"].as_u64(), Some(head));
    third.post_event("ext-1", "agent.message", json!({ "content": "goes on" })).await;
}

#[tokio::test]
async fn what_is_not_whole_or_would_mix_is_refused() {
    let server = serve(tempfile::tempdir().unwrap(), None);
    server.post_event("ext-1", "agent.message", json!({ "content": "kept" })).await;
    let files = tempfile::tempdir().unwrap();
    let whole = files.path().join("whole.tar");
    Ran::of(program(server.data.path(), None).arg("backup").arg("--out").arg(&whole)).expect_code(0);
    let again = Ran::of(program(server.data.path(), None).arg("backup").arg("--out").arg(&whole));
    assert!(again.expect_code(2).stderr.contains("is there already"), "{}", again.stderr);

    let bytes = std::fs::read(&whole).unwrap();
    let broken = |name: &str, bytes: &[u8]| {
        let path = files.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let at = bytes.windows(4).position(|window| window == b"kept").unwrap();
    let mut changed = bytes.clone();
    changed[at] = b'w';
    for (path, said) in [
        (broken("short.tar", &bytes[..bytes.len() / 2]), "broke off"),
        (broken("changed.tar", &changed), "is not as it was made"),
        (broken("other.tar", b"no archive at all"), "is no backup"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let refused = restore(data.path(), &path, None);
        assert!(refused.expect_code(1).stderr.contains(said), "{}", refused.stderr);
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing is left of it");
    }
    let full = restore(server.data.path(), &whole, None);
    assert!(full.expect_code(2).stderr.contains("is not empty"), "{}", full.stderr);

    let url = Postgres::shared().database();
    let first = tempfile::tempdir().unwrap();
    restore(first.path(), &whole, Some(&url)).expect_code(0);
    let second = tempfile::tempdir().unwrap();
    let held = restore(second.path(), &whole, Some(&url));
    assert!(held.expect_code(1).stderr.contains("the target is not empty"), "{}", held.stderr);

    let only = files.path().join("files.tar");
    let made =
        program(server.data.path(), None).args(["backup", "--files-only", "--out"]).arg(&only).output();
    assert!(made.unwrap().status.success());
    let data = tempfile::tempdir().unwrap();
    restore(data.path(), &only, None).expect_code(0);
    assert!(data.path().join("node-id").is_file() && !data.path().join("sunaba.db").exists());
}
