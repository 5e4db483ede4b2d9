use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sunaba_git::{Error, Mirror, Published, chown_tree, publish_branch};

use crate::support::{World, commit, git};

/// Commits on a mirror's branch as a push would.
fn push(world: &World, mirror: &Mirror, branch: &str, text: &str) -> String {
    let clone: PathBuf = world.dir.path().join("pusher");
    if !clone.exists() {
        git(world.dir.path(), &["clone", "-q", mirror.dir().to_str().unwrap(), "pusher"]);
    }
    git(&clone, &["fetch", "-q"]);
    git(&clone, &["checkout", "-q", "-B", branch, &format!("origin/{branch}")]);
    let id = commit(&clone, "work.txt", text);
    git(&clone, &["push", "-q", "origin", branch]);
    id
}

#[tokio::test]
async fn a_branch_appears_and_moves_on_without_touching_the_work_tree() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    let first = push(&world, &mirror, "feature/1-x", "one");
    std::fs::write(world.repo.join("README.md"), "being edited").unwrap();

    let publish = || publish_branch(&mirror, &world.repo, "feature/1-x");
    assert_eq!(publish().await.unwrap(), Published::Created);
    assert_eq!(git(&world.repo, &["rev-parse", "feature/1-x"]), first);
    assert_eq!(publish().await.unwrap(), Published::Unchanged);
    let second = push(&world, &mirror, "feature/1-x", "two");
    assert_eq!(publish().await.unwrap(), Published::Updated);
    assert_eq!(git(&world.repo, &["rev-parse", "feature/1-x"]), second);
    git(&world.repo, &["fsck", "--connectivity-only"]);
    assert_eq!(std::fs::read_to_string(world.repo.join("README.md")).unwrap(), "being edited");
    assert_eq!(git(&world.repo, &["symbolic-ref", "HEAD"]), "refs/heads/main");
}

#[tokio::test]
async fn a_checked_out_branch_is_never_written() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    git(&world.repo, &["worktree", "add", "-q", "-b", "feature/1-x", "../linked"]);
    push(&world, &mirror, "feature/1-x", "one");
    let error = publish_branch(&mirror, &world.repo, "feature/1-x").await.unwrap_err();
    assert!(matches!(error, Error::CheckedOut { .. }), "{error}");
    assert!(error.to_string().contains("linked"), "{error}");
}

#[tokio::test]
async fn a_branch_with_commits_of_its_own_is_left_alone() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    push(&world, &mirror, "feature/1-x", "one");
    git(&world.repo, &["checkout", "-q", "-b", "feature/1-x"]);
    let theirs = world.commit("theirs.txt", "mine");
    git(&world.repo, &["checkout", "-q", "main"]);
    let error = publish_branch(&mirror, &world.repo, "feature/1-x").await.unwrap_err();
    assert!(matches!(error, Error::NotFastForward(_)), "{error}");
    assert_eq!(git(&world.repo, &["rev-parse", "feature/1-x"]), theirs);
}

#[tokio::test]
async fn as_root_files_in_somebody_elses_repository_stay_theirs() {
    let world = World::new();
    if std::fs::metadata(&world.repo).unwrap().uid() != 0 {
        return; // Only root has anything to keep apart.
    }
    // The owner can reach the repository but not the mirror.
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(world.dir.path(), 0o755);
    chown_tree(&world.repo, 200_321, 200_321).await.unwrap();
    let mirror = world.mirror().await;
    open(&world.dir.path().join("git"), 0o700);
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    push(&world, &mirror, "feature/1-x", "one");
    assert_eq!(publish_branch(&mirror, &world.repo, "feature/1-x").await.unwrap(), Published::Created);
    let mut open = vec![world.repo.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().uid(), 200_321, "{}", entry.path().display());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
}

#[tokio::test]
async fn hooks_of_the_repository_do_not_run() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    let proof = world.dir.path().join("ran");
    let hook = world.repo.join(".git/hooks/reference-transaction");
    std::fs::create_dir_all(world.repo.join(".git/hooks")).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", proof.display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    publish_branch(&mirror, &world.repo, "feature/1-x").await.unwrap();
    assert!(!proof.exists());
    git(&world.repo, &["branch", "by-hand"]);
    assert!(proof.exists(), "the hook would have run");
}

#[tokio::test]
async fn a_repository_that_cannot_be_written_says_so() {
    let world = World::new();
    let mirror = world.mirror().await;
    mirror.create_branch("feature-x", "main").await.unwrap();
    // More than a pipe holds, and not compressible: the sender is still at it when the receiver gives up.
    let noise = (0..300_000_u32).map(|n| char::from(b' ' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 95));
    push(&world, &mirror, "feature-x", &noise.collect::<String>());
    std::fs::set_permissions(world.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if std::fs::metadata(&world.repo).unwrap().uid() == 0 {
        chown_tree(&world.repo, 200_323, 200_323).await.unwrap();
    }
    for closed in [".git/refs/heads", ".git/objects"] {
        // Objects go into directories that exist, too.
        let mut open = vec![world.repo.join(closed)];
        let mut all = Vec::new();
        while let Some(dir) = open.pop() {
            let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|path| path.is_dir()));
            all.push(dir);
        }
        let set = |mode| {
            for dir in &all {
                std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            }
        };
        set(0o555);
        let error = publish_branch(&mirror, &world.repo, "feature-x").await.unwrap_err().to_string();
        set(0o755);
        assert!(error.contains("Permission denied") || error.contains("insufficient permission"), "{error}");
        assert!(!error.contains("without a word"), "{error}");
    }
    assert_eq!(publish_branch(&mirror, &world.repo, "feature-x").await.unwrap(), Published::Created);
}
