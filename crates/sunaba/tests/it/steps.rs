//! Steps in real sandboxes: what the agent did to the files is read back over the API, call by call.

use std::path::Path;

use serde_json::{Value, json};

use crate::installation::{Across, id_of, run, script, state};
use crate::support::{Server, git, http, repository, until};

/// Every kind of change, by tools and by commands.
const CHANGES: &str = r#"
- tools:
    - write: {path: made.txt, content: "one\ntwo\nthree\nfour\nfive\nsix\n"}
- tools:
    - edit: {path: made.txt, old: "two", new: "2"}
- text: I move it.
  tools:
    - shell: mv made.txt moved.txt && mkdir -p sub && echo deep > sub/deep.txt && chmod +x sub/deep.txt
- text: I remove something.
  tools:
    - shell: rm README.md
- tools:
    - shell: printf '\000\001\377' > pixels && ln -s pixels link && echo no > .gitignore && echo x > no
- tools:
    - read: moved.txt
- text: Done.
"#;

/// What each tool call did, and what is then in the tree.
type Truth = (&'static [(&'static str, &'static str)], &'static [(&'static str, &'static [u8])]);

const TRUTH: [Truth; 5] = [
    (
        &[("created", "made.txt")],
        &[("README.md", b"# it\n"), ("made.txt", b"one\ntwo\nthree\nfour\nfive\nsix\n")],
    ),
    (
        &[("modified", "made.txt")],
        &[("README.md", b"# it\n"), ("made.txt", b"one\n2\nthree\nfour\nfive\nsix\n")],
    ),
    (
        &[("renamed", "moved.txt"), ("created", "sub/deep.txt")],
        &[
            ("README.md", b"# it\n"),
            ("moved.txt", b"one\n2\nthree\nfour\nfive\nsix\n"),
            ("sub/deep.txt", b"deep\n"),
        ],
    ),
    (
        &[("deleted", "README.md")],
        &[("moved.txt", b"one\n2\nthree\nfour\nfive\nsix\n"), ("sub/deep.txt", b"deep\n")],
    ),
    (
        &[("created", ".gitignore"), ("created", "link"), ("created", "pixels")],
        &[
            (".gitignore", b"no\n"),
            ("link", b"pixels"),
            ("moved.txt", b"one\n2\nthree\nfour\nfive\nsix\n"),
            ("pixels", &[0, 1, 255]),
            ("sub/deep.txt", b"deep\n"),
        ],
    ),
];

async fn get(server: &Server, path: &str) -> reqwest::Response {
    let request = http().get(format!("{}/api/v1/sandboxes/{path}", server.url)).bearer_auth(server.token());
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {} {}", answer.status(), answer.text().await.unwrap());
    answer
}

async fn events(server: &Server, id: &str, event_type: &str) -> Vec<Value> {
    let page: Value =
        get(server, &format!("{id}/events?limit=500&event_type={event_type}")).await.json().await.unwrap();
    page["events"].as_array().unwrap().iter().rev().cloned().collect()
}

/// Everything at one moment: each file with its content.
async fn tree(server: &Server, id: &str, at: &str, folder: &str) -> Vec<(String, Vec<u8>)> {
    let listing: Value =
        get(server, &format!("{id}/files?at={at}&path={folder}")).await.json().await.unwrap();
    let mut found = Vec::new();
    for entry in listing["entries"].as_array().unwrap() {
        let path = entry["path"].as_str().unwrap();
        if entry["type"] == "directory" {
            found.extend(Box::pin(tree(server, id, at, path)).await);
        } else {
            let raw = get(server, &format!("{id}/files?at={at}&path={path}&format=raw")).await;
            found.push((path.to_owned(), raw.bytes().await.unwrap().to_vec()));
        }
    }
    found
}

fn owned(files: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>)> {
    files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
}

/// Compares every step that a server shows with what was done.
async fn compare_with_truth(server: &Server, id: &str) {
    let steps = events(server, id, "agent.step").await;
    assert_eq!(steps.len(), TRUTH.len(), "{steps:#?}");
    let mut before = "base".to_owned();
    for (step, (changes, files)) in steps.iter().zip(TRUTH) {
        let at = step["seq"].to_string();
        assert_eq!(tree(server, id, &at, "").await, owned(files), "after {step}");
        let diff = get(server, &format!("{id}/diff?format=json&from={before}&to={at}")).await;
        let diff: Value = diff.json().await.unwrap();
        let shown: Vec<(&str, &str)> = diff["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["change_type"].as_str().unwrap(), file["path"].as_str().unwrap()))
            .collect();
        assert_eq!(shown, changes, "{diff}");
        before = at;
    }
    // Each change was told once, by whichever tool it was made.
    let edits = events(server, id, "agent.file_edited").await;
    let told: Vec<(&str, &str)> = edits
        .iter()
        .map(|edit| {
            let data = &edit["event_data"];
            (data["change_type"].as_str().unwrap(), data["file_path"].as_str().unwrap())
        })
        .collect();
    let all: Vec<(&str, &str)> = TRUTH.iter().flat_map(|(changes, _)| changes.iter().copied()).collect();
    assert_eq!(told, all);
    // A tool call stands for the files that it left, though its step was told a moment later.
    let done = events(server, id, "agent.tool_completed").await;
    let third = done[2]["id"].as_str().unwrap();
    assert_eq!(tree(server, id, third, "").await, owned(TRUTH[2].1));
}

fn nothing_of_it_is_published(repo: &Path) {
    assert_eq!(git(repo, &["for-each-ref", "refs/sunaba"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_is_read_back_as_it_was() {
    let server = Server::start(&[]);
    let repo = repository(server.data.path());
    let id = run(&server, &repo, &script(server.data.path(), CHANGES));
    until("the end", || state(&server, &id) == "completed");
    compare_with_truth(&server, &id).await;
    nothing_of_it_is_published(&repo);
    let deleted = events(&server, &id, "agent.step").await[3]["seq"].to_string();
    let diff = server.run(&["diff", &id, "--from", "base", "--to", &deleted, "--path", "README.md"]);
    assert!(diff.expect_code(0).stdout.ends_with("-# it\n"), "{}", diff.stdout);
    let file = server.run(&["files", &id, "moved.txt", "--at", &deleted]);
    assert_eq!(file.expect_code(0).stdout, "one\n2\nthree\nfour\nfive\nsix\n");
    let listing = server.run(&["files", &id]);
    assert_eq!(listing.expect_code(0).stdout, ".gitignore\nlink@\nmoved.txt\npixels\nsub/\n");
    let summary = server.json(&["diff", &id]);
    assert_eq!(summary["files"].as_array().unwrap().len(), 6, "{summary}");
    server.run(&["files", &id, "--at", "no-such-event"]).expect_code(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sandbox_goes_on_from_the_middle() {
    const GOES_ON: &str = "
- expect:
    - request_contains: I move it.
    - request_contains: Put both together
    - request_not_contains: I remove something.
  tools:
    - shell: cat moved.txt README.md > both.txt
- text: Done.
";
    let server = Server::start(&[]);
    let repo = repository(server.data.path());
    let id = run(&server, &repo, &script(server.data.path(), CHANGES));
    until("the end", || state(&server, &id) == "completed");
    let steps = events(&server, &id, "agent.step").await;
    let third = steps[2]["seq"].to_string();
    // A script goes on where the conversation is: after the calls up to that step, and none of the later ones.
    let past = "- text: not asked for\n".repeat(3);
    let more = format!("{past}{GOES_ON}");
    let hash: Value = {
        let blob = http().post(format!("{}/api/v1/blobs", server.url)).bearer_auth(server.token()).body(more);
        blob.send().await.unwrap().json().await.unwrap()
    };
    let model = format!("script:{}", hash["hash"].as_str().unwrap());
    let forked = server.json(&["fork", &id, "Put both together", "--at", &third, "--model", &model]);
    let fork = forked["id"].as_str().unwrap();
    assert_eq!(forked["terms"]["forked_from"], id.as_str());
    assert_eq!(forked["terms"]["resume"]["fork"], true, "{forked}");
    until("the fork's end", || state(&server, fork) == "completed");
    let base = tree(&server, fork, "base", "").await;
    assert_eq!(base, owned(TRUTH[2].1), "it starts with the files of that step");
    let shown = server.json(&["show", fork])["sandbox"].clone();
    let branch = shown["branch_name"].as_str().unwrap();
    assert_eq!(
        git(&repo, &["show", &format!("{branch}:both.txt")]),
        "one\n2\nthree\nfour\nfive\nsix\n# it\n"
    );
    let summary = server.json(&["diff", fork]);
    assert_eq!(summary["files"][0]["path"], "both.txt", "of its own it changed one file: {summary}");
    assert_eq!(git(&repo, &["rev-list", "--count", &format!("main..{branch}")]), "2\n");
    nothing_of_it_is_published(&repo);
    server.run(&["fork", &id, "x", "--at", "no-such-event"]).expect_code(1);
    let anew = ["fork", &id, "x", "--at", &third, "--new-conversation", "--model", &model];
    assert_eq!(server.json(&anew)["terms"]["resume"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_read_on_every_node() {
    let Across { installation, home, holder, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), CHANGES));
    until("the end", || state(&home, &id) == "completed");
    assert_eq!(home.json(&["show", &id])["sandbox"]["node_id"], id_of(&holder));
    for server in [&home, &holder] {
        compare_with_truth(server, &id).await;
        let absent = server.run(&["files", &id, "nowhere", "--json"]);
        assert!(absent.stderr.contains("nowhere") || absent.stdout.contains("nowhere"), "{absent:?}");
    }
    drop((home, holder, installation));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_at_most_its_last_step() {
    let server = Server::start(&[]);
    let repo = repository(server.data.path());
    let turns = "
- tools:
    - shell: echo 1 > a
- tools:
    - shell: echo 2 > a
- tools:
    - shell: echo 3 > a; sleep 600
";
    let id = run(&server, &repo, &script(server.data.path(), turns));
    until("the last command runs", || {
        let told = server.run(&["logs", &id, "--json"]).stdout;
        told.matches("agent.step").count() >= 2 && told.contains("sleep 600")
    });
    let steps = events(&server, &id, "agent.step").await;
    let second = steps[1]["seq"].to_string();
    assert_eq!(tree(&server, &id, &second, "").await[1], ("a".to_owned(), b"2\n".to_vec()));
    kill_worker(&server, &id);
    until("its death is noticed", || state(&server, &id) == "failed");
    for (step, content) in steps.iter().zip(["1\n", "2\n"]) {
        let files = tree(&server, &id, &step["seq"].to_string(), "").await;
        assert_eq!(files[1], ("a".to_owned(), content.as_bytes().to_vec()));
    }
    let told: Value = get(&server, &format!("{id}/diff?format=json")).await.json().await.unwrap();
    assert_eq!(told["files"][0]["path"], json!("a"), "also what a failed run did can be seen: {told}");
}

/// Kills the worker of a sandbox as the kernel would, without a word.
fn kill_worker(server: &Server, id: &str) {
    let _ = server;
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        let Ok(arguments) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let is_its = String::from_utf8_lossy(&environment).contains(&format!("SANDBOX_ID={id}\0"));
        let is_worker = String::from_utf8_lossy(&arguments).trim_end_matches('\0').ends_with("\0work");
        let pid = entry.file_name().to_string_lossy().parse::<i32>();
        if let (true, true, Ok(pid)) = (is_its, is_worker, pid) {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
                .unwrap();
            killed += 1;
        }
    }
    assert!(killed > 0, "the worker was found");
}
