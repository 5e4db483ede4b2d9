//! What the worker tells and pushes of the files, after each tool that changed any.

use serde_json::{Value, json};

use crate::server::Turn;
use crate::support::until;
use crate::work::{Bench, bash, ended, git, say, terminate};

const REFERENCE: &str = "refs/sunaba/sbx_test";

/// The events of a type, whole.
fn told(bench: &Bench, event_type: &str) -> Vec<Value> {
    let state = bench.server.state();
    state.events.iter().filter(|event| event["event_type"] == event_type).cloned().collect()
}

/// The trees of the pushed steps, oldest first; none when nothing was pushed.
fn pushed(bench: &Bench) -> Vec<String> {
    let origin = bench.dir.path().join("origin.git");
    let log = std::process::Command::new("git")
        .args(["log", "--reverse", "--format=%T %s", REFERENCE])
        .current_dir(origin)
        .output()
        .unwrap();
    let lines = String::from_utf8_lossy(&log.stdout).into_owned();
    lines.lines().filter_map(|line| line.strip_suffix(" step")).map(str::to_owned).collect()
}

fn content(bench: &Bench, tree: &str, path: &str) -> String {
    git(&bench.dir.path().join("origin.git"), &["show", &format!("{tree}:{path}")])
}

#[tokio::test]
async fn every_change_is_told_once_with_a_step_that_is_pushed() {
    let long = (0..20).map(|n| format!("line {n}\\n")).collect::<String>();
    let bench = Bench::new(vec![
        bash(&format!("printf '{long}' > made.txt")),
        bash("printf 'last\\n' >> made.txt; echo second >> file.txt"),
        bash("cat made.txt"),
        bash("mv made.txt moved.txt"),
        bash("rm file.txt; chmod +x moved.txt"),
        bash("printf '\\000\\001\\002' > pixels; ln -s pixels link"),
        say("done"),
    ])
    .await;
    let head = git(&bench.workspace(), &["rev-parse", "HEAD"]);
    assert!(bench.run().await.success());
    let edits = told(&bench, "agent.file_edited");
    let of = |edit: &Value| {
        let data = &edit["event_data"];
        let word = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        (word("tool_use_id"), word("change_type"), word("file_path"), word("old_path"))
    };
    let expected = [
        ("call_0", "created", "made.txt", ""),
        ("call_1", "modified", "file.txt", ""),
        ("call_1", "modified", "made.txt", ""),
        ("call_3", "renamed", "moved.txt", "made.txt"),
        ("call_4", "deleted", "file.txt", ""),
        ("call_4", "modified", "moved.txt", ""),
        ("call_5", "created", "link", ""),
        ("call_5", "created", "pixels", ""),
    ];
    let expected = expected.map(|(id, kind, path, old)| (id.into(), kind.into(), path.into(), old.into()));
    assert_eq!(edits.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!(edits[0]["event_data"]["lines_added"], 20);
    assert_eq!(edits[7]["event_data"]["binary"], json!(true));
    let diff = edits[1]["event_data"]["full_diff"].as_str().unwrap();
    assert!(diff.ends_with("@@ -1 +1,2 @@\n first\n+second\n"), "{diff}");
    // Each call has one step, and that says after which event the files were like this.
    let steps = told(&bench, "agent.step");
    assert_eq!(steps.len(), 5);
    assert_eq!(steps[1]["event_data"]["files_changed"], 2);
    let completed = told(&bench, "agent.tool_completed");
    for pair in steps.windows(2) {
        assert_eq!(pair[1]["step"]["parent"], pair[0]["step"]["tree"]);
    }
    for step in &steps {
        let call = &step["event_data"]["tool_use_id"];
        let done = completed.iter().find(|event| event["event_data"]["tool_use_id"] == *call).unwrap();
        assert_eq!(step["step"]["event_id"], done["event_id"]);
    }
    let trees: Vec<&str> = steps.iter().map(|step| step["step"]["tree"].as_str().unwrap()).collect();
    assert_eq!(pushed(&bench), trees);
    assert_eq!(content(&bench, trees[1], "file.txt"), "first\nsecond");
    assert_eq!(content(&bench, trees[2], "moved.txt").lines().count(), 21);
    // Of the agent's own repository only its branch and what the worker committed at the end is there.
    assert_eq!(git(&bench.workspace(), &["rev-parse", "HEAD~1"]), head);
    assert_eq!(git(&bench.workspace(), &["for-each-ref", "refs/sunaba"]), "");
    let branch_tree = git(&bench.workspace(), &["rev-parse", "HEAD^{tree}"]);
    assert_eq!(branch_tree, trees[4], "what was committed is the last step");
}

#[tokio::test]
async fn what_the_runtime_tells_itself_is_not_told_again() {
    let write = |path: &str| Turn::Tool("Write".into(), json!({"file_path": path, "content": "words\n"}));
    let edit = json!({"file_path": "kept/link.txt", "old_string": "first", "new_string": "1st"});
    let bench = Bench::new(vec![
        bash("mkdir kept; ln -s ../file.txt kept/link.txt; echo ignored > .gitignore"),
        write("new.txt"),
        write("ignored"),
        write("/tmp/sunaba-steps-elsewhere.txt"),
        Turn::Tool("Edit".into(), edit),
        say("done"),
    ])
    .await;
    assert!(bench.run().await.success());
    let _ = std::fs::remove_file("/tmp/sunaba-steps-elsewhere.txt");
    let edits = told(&bench, "agent.file_edited");
    let paths: Vec<&str> =
        edits.iter().map(|edit| edit["event_data"]["file_path"].as_str().unwrap()).collect();
    let expected = [
        ".gitignore",
        "kept/link.txt",
        "new.txt",
        "ignored",
        "/tmp/sunaba-steps-elsewhere.txt",
        "kept/link.txt",
    ];
    assert_eq!(paths, expected);
    let steps = told(&bench, "agent.step");
    assert_eq!(steps.len(), 3, "of files that are in the tree: {steps:#?}");
    assert_eq!(steps[2]["event_data"]["files"][0]["path"], "file.txt", "where the link leads");
}

#[tokio::test]
async fn what_is_left_out_is_said_once() {
    let bench = Bench::new(vec![
        bash("head -c 6000000 /dev/zero > big; git init -q nested; echo x > nested/f; echo 1 > ok"),
        bash("echo 2 > ok; mkfifo pipe"),
        say("done"),
    ])
    .await;
    // The worker's own commit cannot take a repository without a commit; that is not what is looked at here.
    bench.run().await;
    let edits = told(&bench, "agent.file_edited");
    let paths: Vec<&Value> = edits.iter().map(|edit| &edit["event_data"]["file_path"]).collect();
    assert_eq!(paths, ["ok", "ok"]);
    let skipped: Vec<Value> = told(&bench, "agent.system_message")
        .into_iter()
        .map(|event| event["event_data"]["metadata"].clone())
        .filter(|metadata| metadata["subtype"] == "step_skipped")
        .collect();
    assert_eq!(skipped.len(), 1, "{skipped:#?}");
    let files = &skipped[0]["files"];
    assert_eq!((&files[0]["path"], &files[1]["path"]), (&json!("big"), &json!("nested/")), "{files}");
}

#[tokio::test]
async fn told_to_end_it_pushes_the_last_step() {
    let bench = Bench::new(vec![bash("echo half > half.txt; touch ready; sleep 600"), say("done")]).await;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the command runs", || ready.exists()).await;
    terminate(&worker);
    ended(&mut worker).await;
    let steps = pushed(&bench);
    assert_eq!(steps.len(), 1);
    assert_eq!(content(&bench, &steps[0], "half.txt"), "half");
}

#[tokio::test]
async fn a_killed_worker_has_pushed_all_but_the_last_step() {
    let wait = "echo lost > lost.txt; touch ready; while [ -e ready ]; do sleep 0.1; done";
    let bench = Bench::new(vec![bash("echo 1 > a"), bash("echo 2 > a"), bash(wait), say("done")]).await;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the third command runs", || ready.exists()).await;
    until("two steps are pushed", || pushed(&bench).len() == 2).await;
    worker.kill().await.unwrap();
    std::fs::remove_file(ready).unwrap();
    let steps = pushed(&bench);
    assert_eq!((content(&bench, &steps[0], "a"), content(&bench, &steps[1], "a")), ("1".into(), "2".into()));
    // Its successor in the same sandbox takes up the same line of steps.
    bench.server.state().events.clear();
    let mut next = bench.start();
    until("it is there again", || bench.workspace().join("ready").exists()).await;
    terminate(&next);
    ended(&mut next).await;
    let all = pushed(&bench);
    assert_eq!(all[..2], steps);
    assert!(all.len() > 2, "{all:?}");
}
