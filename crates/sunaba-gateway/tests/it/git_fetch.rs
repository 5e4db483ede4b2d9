use sunaba_git::{WorkspaceSpec, prepare_workspace};

use crate::support::{BRANCH, World, commit, git, git_over_http};

#[tokio::test]
async fn a_clone_sees_the_branches_and_not_the_bookkeeping() {
    let world = World::with_model("script:default").await;
    let (success, printed) =
        git_over_http(world.dir.path(), &["clone", "-q", &world.git_url(), "clone"]).await;
    assert!(success, "{printed}");
    assert_eq!(std::fs::read_to_string(world.path("clone/README.md")).unwrap(), "hello\n");
    let (_, refs) = git_over_http(world.dir.path(), &["ls-remote", &world.git_url()]).await;
    assert!(refs.contains("refs/heads/main") && refs.contains(BRANCH), "{refs}");
    assert!(!refs.contains("refs/owned") && !refs.contains("refs/remotes"), "{refs}");
    // One for the refs and one for the objects of the clone, one more for ls-remote.
    let events = world.events("gateway.git", 3).await;
    assert_eq!(events[1]["service"], "git-upload-pack");
    assert_eq!(events[1]["allowed"], true);
    assert_eq!(events[1]["error"], serde_json::Value::Null);
}

#[tokio::test]
async fn old_clients_clone_too() {
    let world = World::with_model("script:default").await;
    for version in ["0", "1"] {
        let protocol = format!("protocol.version={version}");
        let name = format!("clone{version}");
        let args = ["-c", &protocol, "clone", "-q", &world.git_url(), &name];
        let (success, printed) = git_over_http(world.dir.path(), &args).await;
        assert!(success, "{printed}");
    }
}

#[tokio::test]
async fn a_long_negotiation_arrives_packed_and_is_understood() {
    let world = World::with_model("script:default").await;
    let clone = world.path("clone");
    git(world.dir.path(), &["clone", "-q", world.mirror.dir().to_str().unwrap(), "clone"]);
    git(&clone, &["remote", "set-url", "origin", &world.git_url()]);
    // Newer than what both have, so that git names all of these before it finds common ground.
    let commits = "alias.many=!for n in $(seq 80); do GIT_COMMITTER_DATE=\"$((2000000000 + n)) +0000\" \
                   git commit -q --allow-empty -m $n || exit 1; done";
    git(&clone, &["-c", commits, "many"]);
    commit(&world.path("repo"), "new.txt", "new");
    world.mirror.fetch().await.unwrap();
    // Curl's trace shows the headers that were really sent.
    let trace = world.path("trace");
    let script = format!("GIT_TRACE_CURL={} git fetch origin main", trace.display());
    let alias = format!("alias.traced=!{script}");
    let (success, printed) = git_over_http(&clone, &["-c", &alias, "traced"]).await;
    assert!(success, "{printed}");
    let trace = std::fs::read_to_string(trace).unwrap().to_lowercase();
    assert!(trace.contains("content-encoding: gzip"), "git did not pack its request; the test shows nothing");
    git(&clone, &["cat-file", "-e", "FETCH_HEAD:new.txt"]);
}

#[tokio::test]
async fn another_project_is_not_served() {
    let world = World::with_model("script:default").await;
    let url = format!("{}/gateway/git/proj_other", world.base);
    let (success, printed) = git_over_http(world.dir.path(), &["ls-remote", &url]).await;
    assert!(!success);
    assert!(printed.contains("remote: this sandbox has no access to the project proj_other"), "{printed}");
    let events = world.events("gateway.git", 1).await;
    assert_eq!(events[0]["allowed"], false);
}

#[tokio::test]
async fn a_workspace_with_borrowed_objects_fetches_and_pushes() {
    let world = World::with_model("script:default").await;
    let dir = world.path("ws");
    let inside = world.path("inside");
    let spec = WorkspaceSpec {
        branch: BRANCH,
        commit: BRANCH,
        alternates_inside: inside.to_str().unwrap(),
        remote_url_inside: &world.git_url(),
        owner: None,
        left_out: &[],
    };
    prepare_workspace(&world.mirror, &dir, spec).await.unwrap();
    std::os::unix::fs::symlink(world.mirror.objects_dir(), &inside).unwrap();
    let made = commit(&dir, "made.txt", "made inside");
    let (success, printed) = git_over_http(&dir, &["push", "-q"]).await;
    assert!(success, "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), Some(made));
    let (success, printed) = git_over_http(&dir, &["fetch"]).await;
    assert!(success, "{printed}");
}
