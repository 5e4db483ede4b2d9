use sunaba_git::{Error, Mirror};

use crate::support::{World, git};

#[tokio::test]
async fn a_mirror_follows_its_source_and_keeps_sandbox_branches() {
    let world = World::new();
    let mirror = world.mirror().await;
    let first = mirror.resolve("main").await.unwrap();
    mirror.create_branch("feature/1-x", "main").await.unwrap();
    mirror.create_branch("feature/1-x", &first).await.expect("repeating it is harmless");

    // The source grows a branch of the same name and moves main.
    git(&world.repo, &["checkout", "-q", "-b", "feature/1-x"]);
    world.commit("other.txt", "theirs");
    git(&world.repo, &["checkout", "-q", "main"]);
    let second = world.commit("README.md", "again\n");
    mirror.fetch().await.unwrap();
    assert_eq!(mirror.resolve("refs/heads/main").await.unwrap(), second);
    assert_eq!(mirror.branch_commit("feature/1-x").await.unwrap(), Some(first.clone()));
    assert!(matches!(mirror.create_branch("main", &first).await, Err(Error::BranchExists(_))));
    assert!(matches!(mirror.create_branch("x", "nothing").await, Err(Error::UnknownRef(_))));
}

#[tokio::test]
async fn a_branch_removed_or_turned_into_a_directory_is_followed() {
    let world = World::new();
    git(&world.repo, &["branch", "a"]);
    let mirror = world.mirror().await;
    assert!(mirror.branch_commit("a").await.unwrap().is_some());
    git(&world.repo, &["branch", "-D", "a"]);
    git(&world.repo, &["branch", "a/b"]);
    mirror.fetch().await.unwrap();
    assert_eq!(mirror.branch_commit("a").await.unwrap(), None);
    assert!(mirror.branch_commit("a/b").await.unwrap().is_some());
}

#[tokio::test]
async fn a_branch_name_is_free_here_and_at_the_source() {
    let world = World::new();
    let mirror = world.mirror().await;
    let name = || mirror.unique_branch_name("feature", "tkt_0000000012345678", "Say hello");
    assert_eq!(name().await.unwrap(), "feature/12345678-say-hello");
    mirror.create_branch("feature/12345678-say-hello", "main").await.unwrap();
    assert_eq!(name().await.unwrap(), "feature/12345678-say-hello-2");
    // Known at the source only, and not fetched yet.
    git(&world.repo, &["branch", "feature/12345678-say-hello-2"]);
    assert_eq!(name().await.unwrap(), "feature/12345678-say-hello-3");
    git(&world.repo, &["branch", "docs"]);
    assert_eq!(
        mirror.unique_branch_name("docs", "tkt_12345678", "Say hello").await.unwrap(),
        "docs-12345678-say-hello"
    );
}

#[tokio::test]
async fn diff_log_and_changed_files_tell_what_happened() {
    let world = World::new();
    let base = git(&world.repo, &["rev-parse", "HEAD"]);
    let head = world.commit("README.md", "hello\nworld\n");
    let mirror = world.mirror().await;
    let diff = mirror.diff(&base, &head).await.unwrap();
    assert!(diff.contains("+world") && diff.contains("a/README.md"), "{diff}");
    let log = mirror.log_range(&base, &head).await.unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].id.as_str(), log[0].subject.as_str()), (head.as_str(), "change README.md"));
    let files = mirror.changed_files(&base, &head).await.unwrap();
    assert_eq!((files[0].path.as_str(), files[0].added, files[0].removed), ("README.md", Some(1), Some(0)));
    assert!(mirror.diff("--output=/tmp/x", &head).await.is_err());
}

#[tokio::test]
async fn a_long_diff_is_cut_with_a_mark() {
    let world = World::new();
    let base = git(&world.repo, &["rev-parse", "HEAD"]);
    let head = world.commit("big.txt", &"0123456789abcde\n".repeat(400_000));
    let mirror = world.mirror().await;
    let diff = mirror.diff(&base, &head).await.unwrap();
    assert!(diff.len() < 4_200_000, "{}", diff.len());
    assert!(diff.ends_with("bytes]\n"));
}

#[tokio::test]
async fn a_mirror_is_made_once_and_writes_its_source_nowhere() {
    let world = World::new();
    let mirror = world.mirror().await;
    let again = Mirror::ensure(mirror.dir(), &world.source()).await.unwrap();
    assert_eq!(again.resolve("main").await.unwrap(), mirror.resolve("main").await.unwrap());
    let config = std::fs::read_to_string(mirror.dir().join("config")).unwrap();
    assert!(!config.contains(&world.source()));
    assert!(!mirror.dir().join("FETCH_HEAD").exists());
    assert!(Mirror::open(world.dir.path().join("none.git")).is_err());
}
