//! What a node that will not come back had, and who has it afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::installation::{Across, Installation, id_of, run, run_project, script, state};
use crate::support::{Ran, Server, git, http, repository, until};

const WRITES: &str = "
- tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

/// Serves a repository to anybody who asks, as plain files; gives its address.
fn web(dir: &Path) -> String {
    repository(dir);
    git(dir, &["clone", "-q", "--bare", "repo", "a.git"]);
    git(&dir.join("a.git"), &["update-server-info"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a.git", listener.local_addr().unwrap());
    let root = dir.to_owned();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(&root, stream)));
    url
}

fn answer(root: &Path, mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = match std::fs::read(root.join(path.split('?').next().unwrap_or_default())) {
        Ok(bytes) => ("200 OK", bytes),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A client that has gone away needs no answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

async fn home_of(server: &Server, project: &str) -> Value {
    let url = format!("{}/api/v1/projects/{project}", server.url);
    let row: Value = http().get(url).bearer_auth(server.token()).send().await.unwrap().json().await.unwrap();
    row["home_node"].clone()
}

fn mirror(server: &Server, project: &str) -> PathBuf {
    server.data.path().join("git").join(format!("{project}.git"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_whose_home_is_lost_gets_another_one() {
    let installation = Installation::start();
    let outside = tempfile::tempdir().unwrap();
    let mut first = installation.node(&[]);
    let body = json!({ "repo_url": web(outside.path()), "default_branch": "main" });
    let project = first.post("/api/v1/projects", &body).await["id"].as_str().unwrap().to_owned();
    let id = run_project(&first, &project, WRITES.to_owned()).await;
    until("the end", || state(&first, &id) == "completed");

    let second = installation.node(&[]);
    installation.lose(&mut first, &second);
    assert!(!mirror(&second, &project).exists());
    let id = run_project(&second, &project, WRITES.to_owned()).await;
    until("the end", || ["completed", "failed"].iter().any(|end| state(&second, &id) == *end));
    let shown = second.json(&["show", &id])["sandbox"].clone();
    assert_eq!(
        (&shown["state"], &shown["node_id"]),
        (&json!("completed"), &json!(id_of(&second))),
        "{shown}"
    );
    let branch = shown["branch_name"].as_str().unwrap();
    assert_eq!(git(&mirror(&second, &project), &["show", &format!("{branch}:a.txt")]), "a\n");
    assert_eq!(home_of(&second, &project).await, json!(id_of(&second)));
}

/// The first attempt pushes and goes on; the next one finds its work and adds nothing.
const PUSHES_ONCE: &str = "
- tools:
    - shell: \"if [ -e first.txt ]; then exit; fi; echo 1 > first.txt; git add .; git commit -qm first; git push -q origin HEAD && echo it is up; sleep 600\"
- text: Done.
";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_attempt_had_pushed_is_the_next_one_s() {
    let Across { installation, home, mut holder, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), PUSHES_ONCE));
    until("the push", || home.run(&["logs", &id, "--full"]).stdout.contains("it is up"));
    let other = installation.node(&[]);
    installation.lose(&mut holder, &home);
    let mut next = Value::Null;
    until("the next attempt", || {
        let all = home.json(&["ps", "--all"]);
        next = all.as_array().unwrap().iter().find(|it| it["attempt"] == 2).cloned().unwrap_or_default();
        next["state"] == "completed"
    });
    let next = home.json(&["show", next["id"].as_str().unwrap()])["sandbox"].clone();
    assert_eq!(next["node_id"], id_of(&other));
    let branch = next["branch_name"].as_str().unwrap();
    assert_eq!(git(&repo, &["show", &format!("{branch}:first.txt")]), "1\n", "it is published: {next}");
    assert_eq!(next["head_commit"].as_str().unwrap(), git(&repo, &["rev-parse", branch]).trim());
}

/// Shows its token, without the beginning by which its worker would know it and hide it, and works on.
const SHOWS_ITS_TOKEN: &str = "
- tools:
    - shell: echo \"mine is ${SANDBOX_TOKEN#sun_}.\"
- tools:
    - shell: sleep 600
";

/// The sandbox's own token, once it has shown it.
fn shown_token(server: &Server, id: &str) -> Option<String> {
    let told = server.run(&["logs", id, "--full"]).stdout;
    let (_, after) = told.split_once("mine is sandbox_")?;
    Some(format!("sun_sandbox_{}", after.split_once('.')?.0))
}

/// Posts an event as somebody with this token; gives status and code.
async fn say(server: &Server, id: &str, token: &str) -> (u16, Value) {
    let url = format!("{}/api/v1/sandboxes/{id}/events", server.url);
    let body = json!({ "event_type": "agent.message", "event_data": { "content": "still here" } });
    let answer = http().post(url).bearer_auth(token).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["code"].clone())
}

/// A new commit on what the repository has, which no branch of it knows.
fn commit(repo: &Path, words: &str) -> String {
    let author = ["-c", "user.name=t", "-c", "user.email=t@sunaba.invalid"];
    let tree = ["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", words];
    git(repo, &[&author[..], &tree].concat()).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_attempt_still_sends_is_refused() {
    let Across { installation, home, mut holder, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), SHOWS_ITS_TOKEN));
    let mut token = None;
    until("its token", || {
        token = shown_token(&home, &id);
        token.is_some()
    });
    let token = token.unwrap();
    let row = home.json(&["show", &id])["sandbox"].clone();
    let (project, branch) = (row["project_id"].as_str().unwrap(), row["branch_name"].as_str().unwrap());
    let to = home.url.replacen("//", &format!("//x:{token}@"), 1) + "/gateway/git/" + project;
    let push = |commit: &str| {
        let what = format!("{commit}:refs/heads/{branch}");
        let mut push = Command::new("git");
        push.arg("-C").arg(&repo).args(["push", "-q", "--force", &to, &what]).env("GIT_TERMINAL_PROMPT", "0");
        Ran::of(&mut push)
    };
    // As long as it is the one, both are taken.
    assert_eq!(say(&home, &id, &token).await.0, 200);
    push(&commit(&repo, "early")).expect_code(0);

    let other = installation.node(&[]);
    installation.lose(&mut holder, &home);
    until("the next attempt", || {
        let all = home.json(&["ps", "--all"]);
        all.as_array().unwrap().iter().any(|it| it["attempt"] == 2 && it["state"] == "running")
    });
    let log = home.run(&["logs", &id, "--full"]).stdout;
    for server in [&home, &other] {
        assert_eq!(say(server, &id, &token).await, (409, json!("attempt_superseded")));
    }
    assert_eq!(home.run(&["logs", &id, "--full"]).stdout, log);
    let late = commit(&repo, "late");
    let refused = push(&late);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("403"), "{refused:?}");
    let kept = Command::new("git")
        .arg("-C")
        .arg(mirror(&home, project))
        .args(["cat-file", "-e", &late])
        .stderr(Stdio::null())
        .status();
    assert!(!kept.unwrap().success(), "nothing of it is kept");
}
