use sunaba_git::{Error, Repo};
use tempfile::TempDir;

use crate::support::{World, git};

#[tokio::test]
async fn a_repository_is_found_from_below_and_described() {
    let world = World::new();
    let below = world.repo.join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let repo = Repo::discover(&below).await.unwrap();
    assert_eq!(repo.path(), world.repo.canonicalize().unwrap());
    assert_eq!(repo.current_branch().await.unwrap().as_deref(), Some("main"));
    assert_eq!(repo.default_branch().await.unwrap(), "main");
    assert_eq!(repo.head_commit("main").await.unwrap(), git(&world.repo, &["rev-parse", "HEAD"]));
    assert!(!repo.branch_exists("other").await.unwrap());
    assert!(!repo.is_dirty().await.unwrap());
    std::fs::write(world.repo.join("new.txt"), "x").unwrap();
    assert!(repo.is_dirty().await.unwrap());
}

#[tokio::test]
async fn what_is_not_a_usable_repository_is_said_plainly() {
    let dir = TempDir::new().unwrap();
    let error = Repo::discover(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::NotARepository(_)), "{error}");
    assert!(error.to_string().contains("is not a git repository"), "{error}");

    git(dir.path(), &["init", "-q", "-b", "main"]);
    let repo = Repo::discover(dir.path()).await.unwrap();
    assert!(matches!(repo.default_branch().await, Err(Error::NoCommits(_))));
    assert!(matches!(repo.head_commit("main").await, Err(Error::NoCommits(_))));
}

#[tokio::test]
async fn a_detached_head_and_a_bare_repository_have_a_default_branch() {
    let world = World::new();
    git(&world.repo, &["checkout", "-q", "--detach"]);
    let repo = Repo::discover(&world.repo).await.unwrap();
    assert_eq!(repo.current_branch().await.unwrap(), None);
    assert_eq!(repo.default_branch().await.unwrap(), "main");

    let bare = world.dir.path().join("bare.git");
    git(world.dir.path(), &["clone", "-q", "--bare", "repo", "bare.git"]);
    let repo = Repo::discover(&bare).await.unwrap();
    assert!(repo.is_bare());
    assert!(!repo.is_dirty().await.unwrap());
    assert!(repo.head_commit("main").await.is_ok());
}

#[tokio::test]
async fn settings_of_the_repository_run_nothing() {
    let world = World::new();
    let proof = world.dir.path().join("ran");
    let evil = format!("touch {}", proof.display());
    git(&world.repo, &["config", "core.fsmonitor", &evil]);
    Repo::discover(&world.repo).await.unwrap().is_dirty().await.unwrap();
    assert!(!proof.exists());
}
