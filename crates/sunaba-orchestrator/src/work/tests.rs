//! A home elsewhere whose branch is rewritten while it is copied.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use sunaba_types::{Clock as _, SystemClock};

use super::*;
use crate::made;

const BRANCH: &str = "feature/1-x";

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "safe.directory=*"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A home: says where work starts, and shows its repository as plain files.
struct FakeHome {
    url: String,
    repo: PathBuf,
    /// What it says, one after the other; the last again and again.
    grounds: Arc<Mutex<Vec<String>>>,
}

impl FakeHome {
    fn start(dir: &Path) -> Self {
        let repo = dir.join("home");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", BRANCH]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let grounds: Arc<Mutex<Vec<String>>> = Arc::default();
        let (said, shown) = (Arc::clone(&grounds), repo.join(".git"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(&stream, &said, &shown);
            }
        });
        Self { url, repo, grounds }
    }

    /// Rewrites the branch: nothing leads to what it was before.
    fn rewrite(&self, text: &str) -> String {
        std::fs::write(self.repo.join("file"), text).unwrap();
        git(&self.repo, &["add", "."]);
        let amend = git(&self.repo, &["for-each-ref"]).is_empty();
        let how: &[&str] = if amend { &[] } else { &["--amend"] };
        git(&self.repo, &[&["commit", "-q", "-m", text], how].concat());
        git(&self.repo, &["reflog", "expire", "--expire=now", "--all"]);
        git(&self.repo, &["gc", "-q", "--prune=now"]);
        git(&self.repo, &["update-server-info"]);
        git(&self.repo, &["rev-parse", "HEAD"])
    }

    fn say(&self, commits: &[&String]) {
        *self.grounds.lock().unwrap() = commits.iter().map(|commit| (*commit).clone()).collect();
    }
}

fn answer(mut stream: &TcpStream, grounds: &Mutex<Vec<String>>, repo: &Path) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    let _ = reader.read_line(&mut first);
    let mut length = 0;
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let line = line.to_ascii_lowercase();
        length = line.strip_prefix("content-length: ").map_or(length, |bytes| bytes.parse().unwrap());
    }
    let _ = std::io::copy(&mut reader.take(length), &mut std::io::sink());
    let path = first.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    let body = if first.starts_with("POST") {
        let mut grounds = grounds.lock().unwrap();
        let commit = if grounds.len() > 1 { grounds.remove(0) } else { grounds[0].clone() };
        let ground = Ground { branch: BRANCH.into(), commit, is_of_source: false, left: None };
        Some(serde_json::to_vec(&ground).unwrap())
    } else {
        // `/internal/v1/nodes/NODE/git/PROJECT/…`
        path.splitn(8, '/').nth(7).and_then(|file| std::fs::read(repo.join(file)).ok())
    };
    let head = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let body = body.unwrap_or_default();
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(&body);
}

/// A sandbox here whose project's home is that one.
async fn far_away(dir: &Path, home: &FakeHome) -> (Parts, Sandbox, Work) {
    let parts = made::parts(dir).await;
    let sandbox = made::sandbox(&parts).await;
    let work = find(&parts, &sandbox).await.unwrap();
    let mut report = made::node("node-far").report;
    (report.address, report.started_at) = (home.url.clone(), SystemClock.now());
    parts.store.enter_node(&report).await.unwrap();
    parts.store.ensure_home(&work.project.id, &report.id).await.unwrap();
    (parts, sandbox, work)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_branch_strands_no_replica() {
    let dir = tempfile::tempdir().unwrap();
    let home = FakeHome::start(dir.path());
    let (parts, sandbox, work) = far_away(dir.path(), &home).await;
    let first = home.rewrite("first");
    home.say(&[&first]);
    let base = lay_base(&parts, &sandbox, &work).await.unwrap();
    assert_eq!(base.commit, first);
    // Rewritten after that: the replica is forced to follow.
    let second = home.rewrite("second");
    home.say(&[&second]);
    let base = lay_base(&parts, &sandbox, &work).await.unwrap();
    assert_eq!(
        (&base.commit, base.mirror.branch_commit(BRANCH).await.unwrap().as_ref()),
        (&second, Some(&second))
    );
    // Rewritten between the home's word and the fetch: what was said is nowhere, and the home is asked again.
    let third = home.rewrite("third");
    let fourth = home.rewrite("fourth");
    home.say(&[&third, &fourth]);
    let base = lay_base(&parts, &sandbox, &work).await.unwrap();
    assert_eq!(base.commit, fourth);
    base.mirror.resolve(&base.commit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_comes_is_said_and_nothing_else_is_taken_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = FakeHome::start(dir.path());
    let (parts, sandbox, work) = far_away(dir.path(), &home).await;
    let gone = home.rewrite("gone");
    home.rewrite("there");
    home.say(&[&gone]);
    let error = lay_base(&parts, &sandbox, &work).await.unwrap_err().to_string();
    assert!(error.contains(&gone) && error.contains("rewritten"), "{error}");
}
