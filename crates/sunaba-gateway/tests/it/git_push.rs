use std::path::PathBuf;

use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_store::SandboxChange;

use crate::support::{BRANCH, World, commit, git, git_over_http};

/// A clone on the sandbox's branch that pushes through the gateway.
fn clone(world: &World) -> PathBuf {
    let dir = world.path("clone");
    git(world.dir.path(), &["clone", "-q", "-b", BRANCH, world.mirror.dir().to_str().unwrap(), "clone"]);
    git(&dir, &["remote", "set-url", "origin", &world.git_url()]);
    dir
}

#[tokio::test]
async fn a_sandbox_pushes_its_branch_and_its_steps() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    let made = commit(&dir, "made.txt", "x");
    let steps = format!("HEAD:refs/sunaba/{}", world.sandbox.id);
    let (success, printed) = git_over_http(&dir, &["push", "-q", "origin", BRANCH, &steps]).await;
    assert!(success, "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), Some(made.clone()));
    let events = world.events("gateway.git", 1).await;
    assert_eq!(events[0]["allowed"], true);
    let refs = events[0]["refs"].as_array().unwrap();
    assert_eq!(refs.len(), 2);
    assert_eq!(refs[0]["name"], format!("refs/heads/{BRANCH}"));
    assert_eq!((&refs[0]["new"], &refs[0]["written"]), (&serde_json::json!(made), &serde_json::json!(true)));
}

#[tokio::test]
async fn a_push_larger_than_clients_buffer_arrives() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    // Not compressible, and over git's 1 MiB: sent in chunks, after an empty request.
    let noise: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(dir.join("noise"), noise).unwrap();
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "-q", "-m", "noise"]);
    let args = ["-c", "core.compression=0", "push", "-q", "origin", BRANCH];
    let (success, printed) = git_over_http(&dir, &args).await;
    assert!(success, "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), Some(git(&dir, &["rev-parse", "HEAD"])));
    world.events("gateway.git", 1).await;
}

#[tokio::test]
async fn other_refs_are_refused_with_words_to_act_on() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    let before = world.mirror.branch_commit("main").await.unwrap();
    commit(&dir, "made.txt", "x");
    let other = "HEAD:refs/sunaba/sbx_other";
    for target in ["HEAD:main", "HEAD:feature/other", "HEAD:refs/tags/v1", other, "HEAD:refs/owned/x"] {
        let (success, printed) = git_over_http(&dir, &["push", "origin", target]).await;
        assert!(!success, "{target}");
        assert!(printed.contains("[remote rejected]"), "{printed}");
        let tried = target.strip_prefix("HEAD:").unwrap();
        assert!(printed.contains("may not write refs/") && printed.contains(tried), "{printed}");
        // The command that it names works as it stands; see the end.
        assert!(printed.contains(&format!("git push origin HEAD:refs/heads/{BRANCH}")), "{printed}");
    }
    // One bad ref refuses the whole push.
    let (success, _) = git_over_http(&dir, &["push", "origin", BRANCH, "HEAD:main"]).await;
    assert!(!success);
    assert_eq!(world.mirror.branch_commit("main").await.unwrap(), before);
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), before);
    let (success, printed) = git_over_http(&dir, &["push", "origin", "--delete", BRANCH]).await;
    assert!(!success && printed.contains("may not delete"), "{printed}");
    let events = world.events("gateway.git", 7).await;
    assert!(events.iter().all(|event| event["allowed"] == false && event["reason"].is_string()));
    assert_eq!(events[0]["refs"][0]["name"], "refs/heads/main");
    for event in &events {
        for each in event["refs"].as_array().unwrap() {
            assert_eq!((&each["written"], &each["refused"]), (&false.into(), &event["reason"]), "{event}");
        }
    }
    let told = format!("HEAD:refs/heads/{BRANCH}");
    let (success, printed) = git_over_http(&dir, &["push", "origin", &told]).await;
    assert!(success, "{printed}");
}

#[tokio::test]
async fn a_superseded_attempt_can_no_longer_push() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    let before = world.mirror.branch_commit(BRANCH).await.unwrap();
    commit(&dir, "made.txt", "x");
    world.caller.lock().unwrap().attempt += 1;
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success && printed.contains("remote: attempt_superseded"), "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), before);
}

async fn fail(world: &World) {
    let failed = SandboxChange {
        trigger: Some(SandboxTrigger::Fail),
        task_trigger: Some(TaskTrigger::Fail),
        reason: Some("silent".into()),
        ..SandboxChange::default()
    };
    world.store.change_sandbox(&world.sandbox.id, failed).await.unwrap();
}

#[tokio::test]
async fn an_ended_sandbox_and_then_its_successor_shut_it_out() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    commit(&dir, "made.txt", "x");
    fail(&world).await;
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success && printed.contains("remote: this sandbox is failed"), "{printed}");
    let retry = SandboxChange { task_trigger: Some(TaskTrigger::Retry), ..SandboxChange::default() };
    world.store.change_sandbox(&world.sandbox.id, retry).await.unwrap();
    let next = world.start_next_attempt().await;
    assert_eq!(next.attempt, world.sandbox.attempt + 1);
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success && printed.contains("remote: attempt_superseded"), "{printed}");
}

#[tokio::test]
async fn a_push_that_waited_for_the_projects_lock_is_compared_under_it() {
    let world = World::with_model("script:default").await;
    let dir = clone(&world);
    let before = world.mirror.branch_commit(BRANCH).await.unwrap();
    commit(&dir, "made.txt", "x");
    // Somebody else holds the lock while the push arrives whole and is ready to be written.
    let held = world.locks.lock(world.project.as_str()).await;
    let push = tokio::spawn({
        let dir = dir.clone();
        async move { git_over_http(&dir, &["push", "origin", BRANCH]).await }
    });
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while world.pushes_arrived() == 0 {
        assert!(tokio::time::Instant::now() < deadline && !push.is_finished(), "the push did not arrive");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Meanwhile a later attempt takes its place.
    fail(&world).await;
    let retry = SandboxChange { task_trigger: Some(TaskTrigger::Retry), ..SandboxChange::default() };
    world.store.change_sandbox(&world.sandbox.id, retry).await.unwrap();
    world.start_next_attempt().await;
    drop(held);
    let (success, printed) = push.await.unwrap();
    assert!(!success && printed.contains("attempt_superseded"), "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), before);
}

#[tokio::test]
async fn the_right_to_push_is_compared_again_when_the_push_arrives() {
    let world = World::with_model("script:default").await;
    let before = world.mirror.branch_commit(BRANCH).await.unwrap().unwrap();
    fail(&world).await;
    // Straight to the second request, as a client would that asked for the refs while it still might.
    let line = format!("{before} {} refs/heads/{BRANCH}\0report-status", "1".repeat(40));
    let body = format!("{:04x}{line}0000", line.len() + 4);
    let url = format!("{}/git-receive-pack", world.git_url());
    let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let report = answer.text().await.unwrap();
    assert!(report.contains(&format!("ng refs/heads/{BRANCH} this sandbox is failed")), "{report}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), Some(before));
    let events = world.events("gateway.git", 1).await;
    assert_eq!((&events[0]["allowed"], &events[0]["refs"][0]["written"]), (&false.into(), &false.into()));
}

#[tokio::test]
async fn what_is_not_a_push_is_refused_without_reaching_git() {
    let world = World::with_model("script:default").await;
    let url = format!("{}/git-receive-pack", world.git_url());
    let client = reqwest::Client::new();
    for body in ["", "zzzz", "0010not a command", "ffff"] {
        let answer = client.post(&url).body(body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 400, "{body:?}");
    }
    let odd = client.post(&url).header("content-encoding", "br").body("0000").send().await.unwrap();
    assert_eq!(odd.status().as_u16(), 400);
    let not_gzip = client.post(&url).header("content-encoding", "gzip").body("0000").send().await.unwrap();
    assert_eq!(not_gzip.status().as_u16(), 400);
}
