//! What a node that will not come back had, and who has it afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::installation::{Across, Installation, id_of, run, run_project, script, state};
use crate::support::{Server, git, http, repository, until};

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
