use std::os::unix::fs::MetadataExt;

use sunaba_git::{Error, WorkspaceSpec, chown_tree, prepare_workspace};

use crate::support::{World, commit, git};

fn spec<'a>(alternates_inside: &'a str, owner: Option<(u32, u32)>) -> WorkspaceSpec<'a> {
    let remote_url_inside = "http://127.0.0.1:3129/gateway/git/p";
    let (branch, commit) = ("feature/1-x", "refs/heads/feature/1-x");
    WorkspaceSpec { branch, commit, alternates_inside, remote_url_inside, owner, left_out: &[] }
}

#[tokio::test]
async fn a_workspace_borrows_objects_by_the_path_they_have_inside() {
    let world = World::new();
    git(&world.repo, &["tag", "v1"]);
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    let dir = world.dir.path().join("ws");
    // Here "inside" is a link, so that plain git can be tried afterwards.
    let inside = world.dir.path().join("inside");
    prepare_workspace(&mirror, &dir, spec(inside.to_str().unwrap(), None)).await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("README.md")).unwrap(), "hello\n");
    let alternates = std::fs::read_to_string(dir.join(".git/objects/info/alternates")).unwrap();
    assert_eq!(alternates, format!("{}\n", inside.display()));

    std::os::unix::fs::symlink(mirror.objects_dir(), &inside).unwrap();
    assert_eq!(git(&dir, &["status", "--porcelain", "--branch"]), "## feature/1-x...origin/feature/1-x");
    assert_eq!(git(&dir, &["remote", "get-url", "origin"]), "http://127.0.0.1:3129/gateway/git/p");
    assert_eq!(git(&dir, &["rev-parse", "origin/main"]), git(&dir, &["rev-parse", "v1"]));
    assert_eq!(git(&dir, &["count-objects"]), "0 objects, 0 kilobytes");
    commit(&dir, "new.txt", "made inside");
    git(&dir, &["fsck", "--connectivity-only"]);
}

#[tokio::test]
async fn a_workspace_is_made_only_in_an_empty_directory_and_on_a_known_branch() {
    let world = World::new();
    let mirror = world.mirror().await;
    let dir = world.dir.path().join("ws");
    let unknown = prepare_workspace(&mirror, &dir, spec("/run/x", None)).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownRef(_)), "{unknown}");
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("mine"), "x").unwrap();
    let taken = prepare_workspace(&mirror, &dir, spec("/run/x", None)).await.unwrap_err();
    assert!(matches!(taken, Error::WorkspaceNotEmpty(_)), "{taken}");
}

/// Between the moment it is decided where work starts and the clone the branch may be rewritten.
#[tokio::test]
async fn a_workspace_starts_where_it_was_decided_also_when_the_branch_has_moved() {
    let world = World::new();
    git(&world.repo, &["branch", "feature/1-x"]);
    let mirror = world.mirror().await;
    let decided = mirror.resolve("feature/1-x").await.unwrap();
    git(&world.repo, &["checkout", "-q", "feature/1-x"]);
    std::fs::write(world.repo.join("README.md"), "rewritten\n").unwrap();
    git(&world.repo, &["commit", "-q", "-a", "--amend", "-m", "other"]);
    mirror.fetch().await.unwrap();
    let moved = mirror.resolve("feature/1-x").await.unwrap();
    assert_ne!(moved, decided);
    let (dir, objects) = (world.dir.path().join("ws"), mirror.objects_dir());
    let at = WorkspaceSpec { commit: &decided, ..spec(objects.to_str().unwrap(), None) };
    prepare_workspace(&mirror, &dir, at).await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("README.md")).unwrap(), "hello\n");
    assert_eq!(git(&dir, &["rev-parse", "HEAD"]), decided);
    assert_eq!(git(&dir, &["symbolic-ref", "HEAD"]), "refs/heads/feature/1-x");
    assert_eq!(git(&dir, &["rev-parse", "origin/feature/1-x"]), moved);
}

#[tokio::test]
async fn giving_a_tree_away_follows_no_link() {
    let world = World::new();
    let outside = world.dir.path().join("outside");
    std::fs::write(&outside, "x").unwrap();
    let tree = world.dir.path().join("tree");
    std::fs::create_dir_all(tree.join("deep")).unwrap();
    std::fs::write(tree.join("deep/file"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, tree.join("deep/link")).unwrap();
    let me = std::fs::metadata(&tree).unwrap();
    let (uid, gid) = if me.uid() == 0 { (200_123, 200_123) } else { (me.uid(), me.gid()) };
    chown_tree(&tree, uid, gid).await.unwrap();
    for path in ["", "deep", "deep/file", "deep/link"] {
        assert_eq!(std::fs::symlink_metadata(tree.join(path)).unwrap().uid(), uid, "{path}");
    }
    assert_eq!(std::fs::metadata(&outside).unwrap().uid(), me.uid());
}

#[tokio::test]
async fn what_python_leaves_behind_is_not_committed() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    let dir = world.dir.path().join("ws");
    prepare_workspace(&mirror, &dir, spec(mirror.objects_dir().to_str().unwrap(), None)).await.unwrap();
    std::fs::create_dir_all(dir.join("pkg/__pycache__")).unwrap();
    std::fs::create_dir_all(dir.join(".pytest_cache")).unwrap();
    for path in ["pkg/__pycache__/a.cpython-313.pyc", "old.pyc", ".pytest_cache/x", "pkg/a.py"] {
        std::fs::write(dir.join(path), "x").unwrap();
    }
    git(&dir, &["add", "--all"]);
    assert_eq!(git(&dir, &["diff", "--cached", "--name-only"]), "pkg/a.py");
}

#[tokio::test]
async fn what_is_laid_under_the_workspace_is_nothing_to_commit() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    let dir = world.dir.path().join("ws");
    let left_out = ["node_modules".to_owned(), "odd [a] !name".to_owned()];
    let objects = mirror.objects_dir();
    let with = WorkspaceSpec { left_out: &left_out, ..spec(objects.to_str().unwrap(), None) };
    prepare_workspace(&mirror, &dir, with).await.unwrap();
    for path in &left_out {
        std::fs::create_dir(dir.join(path)).unwrap();
        std::fs::write(dir.join(path).join("file"), "x").unwrap();
    }
    std::fs::create_dir_all(dir.join("sub/node_modules")).unwrap();
    std::fs::write(dir.join("sub/node_modules/mine"), "x").unwrap();
    assert_eq!(git(&dir, &["status", "--porcelain"]), "?? sub/");
}
