use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use sunaba_git::{Error, Mirror, ObjectFormat, chown_tree};

use crate::support::{World, commit, git};

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
async fn a_source_that_has_nothing_new_is_not_fetched_and_a_moved_tag_is_new() {
    let world = World::new();
    git(&world.repo, &["tag", "v1"]);
    let mirror = world.mirror().await;
    mirror.fetch().await.unwrap();
    let first = mirror.resolve("v1").await.unwrap();
    // A fetch would want to list what the source can give, which it cannot without its objects.
    let (objects, aside) = (world.repo.join(".git/objects"), world.repo.join(".git/objects.aside"));
    std::fs::rename(&objects, &aside).unwrap();
    std::fs::create_dir(&objects).unwrap();
    mirror.fetch().await.expect("nothing is new, so nothing is asked for");
    std::fs::remove_dir(&objects).unwrap();
    std::fs::rename(&aside, &objects).unwrap();
    git(&world.repo, &["checkout", "-q", "--detach"]);
    let second = world.commit("README.md", "tagged\n");
    git(&world.repo, &["tag", "-f", "v1"]);
    git(&world.repo, &["checkout", "-q", "main"]);
    mirror.fetch().await.unwrap();
    assert_eq!(mirror.resolve("v1").await.unwrap(), second);
    assert_ne!(first, second);
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
    // Somebody's own at the source.
    git(&world.repo, &["branch", "feature/12345678-say-hello-2"]);
    git(&world.repo, &["branch", "docs"]);
    mirror.fetch().await.unwrap();
    assert_eq!(name().await.unwrap(), "feature/12345678-say-hello-3");
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

/// A replica cannot ask what it is a copy of before it fetches: it is told.
#[tokio::test]
async fn a_replica_has_the_kind_of_ids_that_its_mirror_has() {
    let world = World::new();
    let repo = world.dir.path().join("wide");
    std::fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "main", "--object-format=sha256"]);
    let tip = crate::support::commit(&repo, "a.txt", "a\n");
    let source = format!("file://{}", repo.display());
    // Made by a version that knew only one kind; nothing could be fetched into it.
    let dir = world.dir.path().join("git/r.git");
    let narrow = Mirror::ensure_replica(&dir, &source, ObjectFormat::Sha1).await.unwrap();
    assert!(narrow.fetch().await.is_err());
    let replica = Mirror::ensure_replica(&dir, &source, ObjectFormat::of_id(&tip)).await.unwrap();
    replica.fetch().await.unwrap();
    assert_eq!(replica.resolve("main").await.unwrap(), tip);
    // What sandboxes may borrow from is not removed under them.
    let other = Mirror::ensure_replica(&dir, &source, ObjectFormat::Sha1).await.unwrap_err();
    assert!(matches!(&other, Error::OtherFormat { .. }), "{other}");
    assert!(other.to_string().contains("holds sha256 objects"), "{other}");
    assert_eq!(replica.resolve("main").await.unwrap(), tip);
}

#[tokio::test]
async fn old_locks_go_and_fresh_ones_stay() {
    let world = World::new();
    let mirror = world.mirror().await;
    let second = world.commit("README.md", "again\n");
    let old = [
        mirror.dir().join("refs/heads/main.lock"),
        mirror.dir().join("refs/remotes/source/main.lock"),
        mirror.dir().join("packed-refs.lock"),
    ];
    for path in &old {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        let made = file.metadata().unwrap().modified().unwrap();
        file.set_modified(made - Duration::from_secs(3600)).unwrap();
    }
    let fresh = mirror.dir().join("refs/heads/other.lock");
    File::create(&fresh).unwrap();
    mirror.fetch().await.expect("what a killed git left is no obstacle");
    assert_eq!(mirror.resolve("refs/heads/main").await.unwrap(), second);
    assert!(old.iter().all(|path| !path.exists()));
    assert!(fresh.exists(), "somebody may be at work");
}

#[tokio::test]
async fn as_root_a_repository_hands_out_only_what_its_owner_may_read() {
    let world = World::new();
    if std::fs::metadata(&world.repo).unwrap().uid() != 0 {
        return; // Only root has anything to keep apart.
    }
    std::fs::set_permissions(world.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let secret = world.dir.path().join("secret");
    std::fs::create_dir(&secret).unwrap();
    git(&secret, &["init", "-q", "-b", "main"]);
    let hidden = commit(&secret, "key.txt", "nobody else's");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700)).unwrap();
    let borrowed = format!("{}\n", secret.join(".git/objects").display());
    std::fs::create_dir_all(world.repo.join(".git/objects/info")).unwrap();
    chown_tree(&world.repo, 200_322, 200_322).await.unwrap();
    let mirror = world.mirror().await;
    assert!(mirror.branch_commit("main").await.unwrap().is_some(), "an honest repository is fetched");
    std::fs::write(world.repo.join(".git/objects/info/alternates"), borrowed).unwrap();
    std::fs::write(world.repo.join(".git/refs/heads/stolen"), format!("{hidden}\n")).unwrap();
    chown_tree(&world.repo, 200_322, 200_322).await.unwrap();
    let _ = mirror.fetch().await;
    assert!(mirror.resolve(&hidden).await.is_err(), "another's commit came along");
    assert_eq!(mirror.branch_commit("stolen").await.unwrap(), None);
}
