//! Files and diffs of a sandbox, at any event.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_server::MirrorFiles;
use sunaba_store::SandboxChange;
use sunaba_testkit::{Answer, Setup, TestApp, Work};

/// A run of two tool calls, each with its step, in a mirror that has all of it.
struct Stage {
    app: TestApp,
    work: Work,
    trees: [String; 3],
    /// Removed at the end.
    #[expect(dead_code, reason = "held, not read")]
    mirrors: tempfile::TempDir,
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@sunaba.invalid", "-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn commit(tree: &Path) -> String {
    git(tree, &["add", "--all"]);
    git(tree, &["commit", "-qm", "x"]);
    git(tree, &["rev-parse", "HEAD^{tree}"])
}

/// The files of three moments, pushed to the mirror.
fn make_trees(clone: &Path, mirror: &Path) -> (String, [String; 3]) {
    std::fs::create_dir_all(clone.join("src")).unwrap();
    git(clone, &["init", "-q", "-b", "main"]);
    let write = |path: &str, bytes: &[u8]| std::fs::write(clone.join(path), bytes).unwrap();
    write("README.md", b"one\ntwo\nthree\nfour\nfive\nsix\n");
    write("src/main.rs", b"fn main() {}\n");
    write("big", &vec![b'x'; 6_000_000]);
    let first = commit(clone);
    let base = git(clone, &["rev-parse", "HEAD"]);
    write("src/main.rs", b"fn main() { run() }\n");
    write("pixels", &[0, 159, 146, 150]);
    std::fs::rename(clone.join("README.md"), clone.join("READ.md")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", clone.join("link")).unwrap();
    let second = commit(clone);
    std::fs::remove_file(clone.join("pixels")).unwrap();
    let third = commit(clone);
    git(clone, &["push", "-q", mirror.to_str().unwrap(), "HEAD:refs/sunaba/any", "HEAD~2:refs/heads/main"]);
    (base, [first, second, third])
}

async fn stage() -> Stage {
    let mirrors = tempfile::tempdir().unwrap();
    let git_root = mirrors.path().to_owned();
    let app = Setup::default()
        .compose(move |parts| parts.files = Some(Arc::new(MirrorFiles { git_root })))
        .start()
        .await;
    let work = app.work("p").await;
    let git_dir = mirrors.path().join(format!("{}.git", work.project.id));
    git(mirrors.path(), &["init", "-q", "--bare", git_dir.to_str().unwrap()]);
    let (base, trees) = make_trees(&app.path("clone"), &git_dir);
    let ground = SandboxChange {
        branch_name: Some("feature/x".to_owned()),
        base_commit: Some(base),
        ..SandboxChange::default()
    };
    app.store.change_sandbox(&work.sandbox.id, ground).await.unwrap();
    Stage { app, work, trees, mirrors }
}

impl Stage {
    async fn get(&self, rest: &str) -> Answer {
        self.app.admin.get(&self.work.path(rest)).await
    }

    /// Two tool calls; the place of each event: two calls, then both steps, late.
    async fn run(&self) -> [i64; 4] {
        let post = |body: Value| async move {
            let answer = self.work.worker.post(&self.work.path("/events"), body).await.expect(200);
            answer["seq"].as_i64().unwrap()
        };
        let done = |id: &str| json!({"event_type": "agent.tool_completed", "event_id": id});
        let step = |id: &str, tree: &str, after: &str| {
            let step = json!({"tree": tree, "parent": null, "event_id": after});
            json!({"event_type": "agent.step", "event_id": id, "step": step})
        };
        [
            post(done("call-1")).await,
            post(done("call-2")).await,
            post(step("step-1", &self.trees[1], "call-1")).await,
            post(step("step-2", &self.trees[2], "call-2")).await,
        ]
    }
}

fn names(listing: &Value) -> Vec<&str> {
    listing["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn files_are_shown_as_they_were_after_any_event() {
    let stage = stage().await;
    let before = stage.get("/files").await.expect(200);
    assert_eq!(names(&before), ["README.md", "big", "src"], "before the first step: where it started");
    assert_eq!(before["at"]["seq"], Value::Null);
    let [call_1, call_2, step_1, step_2] = stage.run().await;
    // The step of the first call came after the second call had been told.
    for (at, tree, told_by) in [
        (call_1.to_string(), 1, "step-1"),
        ("call-1".to_owned(), 1, "step-1"),
        (call_2.to_string(), 2, "step-2"),
        ("call-2".to_owned(), 2, "step-2"),
        (step_1.to_string(), 2, "step-2"),
        (step_2.to_string(), 2, "step-2"),
        ("latest".to_owned(), 2, "step-2"),
    ] {
        let shown = stage.get(&format!("/files?at={at}")).await.expect(200);
        let expected = (json!(stage.trees[tree]), json!(told_by));
        assert_eq!((&shown["at"]["tree"], &shown["at"]["event_id"]), (&expected.0, &expected.1), "{at}");
    }
    let top = stage.get("/files?at=call-1").await.expect(200);
    assert_eq!(
        (&top["type"], names(&top)),
        (&json!("directory"), vec!["READ.md", "big", "link", "pixels", "src"])
    );
    let inside = stage.get("/files?at=call-1&path=src/").await.expect(200);
    assert_eq!(inside["entries"][0]["path"], "src/main.rs");
    let file = stage.get("/files?at=call-1&path=src/main.rs").await.expect(200);
    assert_eq!((&file["type"], &file["encoding"]), (&json!("file"), &json!("utf-8")));
    assert_eq!((&file["content"], &file["size_bytes"]), (&json!("fn main() { run() }\n"), &json!(20)));
    let binary = stage.get("/files?at=call-1&path=pixels").await.expect(200);
    assert_eq!((&binary["encoding"], &binary["content"]), (&json!("base64"), &json!("AJ+Slg==")));
    let link = stage.get("/files?at=call-1&path=link").await.expect(200);
    assert_eq!((&link["type"], &link["content"]), (&json!("symlink"), &json!("/etc/passwd")));
    let path = stage.work.path("/files?at=call-1&path=pixels&format=raw");
    let raw = stage.app.admin.request(reqwest::Method::GET, &path).send().await.unwrap();
    assert_eq!(raw.headers()["content-type"], "application/octet-stream");
    assert_eq!(raw.headers()["x-content-type-options"], "nosniff");
    assert_eq!(raw.bytes().await.unwrap(), [0, 159, 146, 150].as_slice());
}

#[tokio::test]
async fn a_diff_is_between_any_two_events() {
    let stage = stage().await;
    stage.run().await;
    let all = stage.get("/diff?format=json").await.expect(200);
    let kinds = |diff: &Value| {
        let of = |file: &Value| {
            let word = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
            (word("change_type"), word("path"), word("old_path"))
        };
        diff["files"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let expected = |all: &[(&str, &str, &str)]| {
        let owned = all.iter().map(|(kind, path, old)| ((*kind).into(), (*path).into(), (*old).into()));
        owned.collect::<Vec<(String, String, String)>>()
    };
    let renamed = ("renamed", "READ.md", "README.md");
    let (link, main) = (("created", "link", ""), ("modified", "src/main.rs", ""));
    assert_eq!(kinds(&all), expected(&[renamed, link, main]));
    assert_eq!((&all["to"]["event_id"], &all["truncated"]), (&json!("step-2"), &json!(false)));
    assert_eq!((&all["files"][2]["lines_added"], &all["files"][2]["lines_removed"]), (&json!(1), &json!(1)));
    let first = stage.get("/diff?format=json&to=call-1").await.expect(200);
    assert_eq!(kinds(&first), expected(&[renamed, link, ("created", "pixels", ""), main]));
    assert_eq!(first["files"][2]["binary"], json!(true));
    let second = stage.get("/diff?format=json&from=call-1&to=latest").await.expect(200);
    assert_eq!(kinds(&second), expected(&[("deleted", "pixels", "")]));
    let back = stage.get("/diff?format=json&from=latest&to=base&path=src").await.expect(200);
    assert_eq!(kinds(&back), expected(&[("modified", "src/main.rs", "")]));
    let text = stage.get("/diff?path=src").await;
    assert!(text.header("content-type").starts_with("text/plain"));
    let text = text.text;
    assert!(
        text.starts_with("diff --git a/src/main.rs") && text.ends_with("+fn main() { run() }\n"),
        "{text}"
    );
    assert!(stage.get("/diff?from=latest&to=latest").await.text.is_empty());
}

#[tokio::test]
async fn what_cannot_be_shown_is_said_in_words() {
    let stage = stage().await;
    stage.run().await;
    for bad in ["at=0", "at=", "at=99999999999999999999", "path=../x", "path=/etc", "path=a//b", "format=xml"]
    {
        stage.get(&format!("/files?{bad}")).await.expect_problem(422, "validation_failed");
    }
    for bad in ["from=0", "to=", "path=..", "format=raw"] {
        stage.get(&format!("/diff?{bad}")).await.expect_problem(422, "validation_failed");
    }
    stage.get("/files?at=999").await.expect_problem(404, "event_not_found");
    stage.get("/diff?from=no-such-event").await.expect_problem(404, "event_not_found");
    stage.get("/files?path=nowhere").await.expect_problem(404, "path_not_found");
    stage.get("/files?path=src/main.rs/deeper").await.expect_problem(404, "path_not_found");
    stage.get("/files?path=src&format=raw").await.expect_problem(422, "not_a_file");
    stage.get("/files?path=big").await.expect_problem(422, "file_too_large");
    // A name that git would take for an option or a pattern is only a name.
    for name in ["--help", "*", ":(top)src", "src/*"] {
        stage.get(&format!("/files?path={name}")).await.expect_problem(404, "path_not_found");
    }
    let step = json!({"tree": "a".repeat(40)});
    let body = json!({"event_type": "agent.step", "step": step});
    stage.work.worker.post(&stage.work.path("/events"), body).await.expect(200);
    stage.get("/files").await.expect_problem(404, "step_not_pushed");
    stage.get("/diff").await.expect_problem(404, "step_not_pushed");
    stage.get("/files?at=call-1").await.expect(200);
    let failed = SandboxChange { trigger: Some(SandboxTrigger::Fail), ..SandboxChange::default() };
    stage.app.store.change_sandbox(&stage.work.sandbox.id, failed).await.unwrap();
    let lost = stage.get("/files").await;
    lost.expect_problem(404, "step_not_pushed");
    assert!(lost.json()["detail"].as_str().unwrap().contains("lost with the sandbox"), "{}", lost.json());
}

#[tokio::test]
async fn only_those_who_may_see_the_sandbox_see_its_files() {
    let stage = stage().await;
    stage.run().await;
    let other = stage.app.project("other").await;
    let stranger = stage.app.personal(&["read"], &[&other.id]).await;
    for rest in ["/files", "/diff"] {
        stranger.get(&stage.work.path(rest)).await.expect_problem(404, "sandbox_not_found");
        stage.app.anonymous().get(&stage.work.path(rest)).await.expect_problem(401, "unauthorized");
    }
    // One that only reports to us has no files here.
    stage
        .app
        .admin
        .post("/api/v1/sandboxes/ext-1/events", json!({"event_type": "agent.message"}))
        .await
        .expect(200);
    stage.app.admin.get("/api/v1/sandboxes/ext-1/files").await.expect_problem(404, "no_steps");
    stage.app.admin.get("/api/v1/sandboxes/ext-1/diff").await.expect_problem(404, "no_steps");
}

#[tokio::test]
async fn a_fork_is_asked_for_with_care() {
    let stage = stage().await;
    let [_, _, step_1, _] = stage.run().await;
    let fork = |body: Value| {
        let (admin, path) = (&stage.app.admin, stage.work.path("/fork"));
        async move { admin.post(&path, body).await }
    };
    for bad in
        [json!({}), json!({"prompt": ""}), json!({"prompt": "x", "at": 3}), json!({"prompt": "x", "at": ""})]
    {
        fork(bad).await.expect_problem(422, "validation_failed");
    }
    fork(json!({"prompt": "x", "runtime": "parrot"})).await.expect_problem(422, "validation_failed");
    fork(json!({"prompt": "x", "at": "no-such-event"})).await.expect_problem(404, "event_not_found");
    let reader = stage.app.personal(&["read"], &[&stage.work.project.id]).await;
    let refused = reader.post(&stage.work.path("/fork"), json!({"prompt": "x"})).await;
    refused.expect_problem(403, "scope_missing");
    let before = stage.app.admin.get("/api/v1/sandboxes").await.expect(200);
    assert_eq!(before["sandboxes"].as_array().unwrap().len(), 1, "a refused one leaves nothing behind");
    let made = fork(json!({"prompt": "go on", "at": "call-1"})).await.expect(201);
    assert_eq!((&made["state"], &made["prompt"]), (&json!("pending"), &json!("go on")));
    let from = (&made["terms"]["forked_from"], &made["terms"]["forked_at"]);
    assert_eq!(from, (&json!(stage.work.sandbox.id.as_str()), &json!(step_1)));
    assert_eq!((&made["runtime"], &made["model"]), (&json!("native"), &json!("script:default")));
    let id = made["id"].as_str().unwrap().parse::<String>().unwrap();
    let row =
        stage.app.store.find_sandbox(&sunaba_types::SandboxId::parse(id).unwrap()).await.unwrap().unwrap();
    assert_eq!(row.terms.files_from.unwrap().tree, stage.trees[1]);
}

#[tokio::test]
async fn a_step_that_makes_no_sense_is_refused() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let tree = "a".repeat(40);
    for step in [
        json!({"tree": "main"}),
        json!({"parent": tree}),
        json!({"tree": tree, "parent": "x"}),
        json!({"tree": tree, "event_id": ""}),
        json!({"tree": tree, "event_id": "x".repeat(101)}),
        json!("x"),
    ] {
        let body = json!({"event_type": "agent.step", "step": step});
        work.worker.post(&work.path("/events"), body).await.expect_problem(422, "validation_failed");
    }
}
