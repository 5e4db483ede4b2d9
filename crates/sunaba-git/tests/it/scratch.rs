use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_git::{ChangeKind, Changes, Scratch};

use crate::support::{World, git};

const PATCH_MAX: u64 = 1 << 20;
const REFERENCE: &str = "refs/sunaba/sbx_1";

struct Looking {
    world: World,
    scratch: Scratch,
    last: String,
}

impl Looking {
    async fn at(world: World) -> Self {
        let scratch =
            Scratch::open(&world.dir.path().join("steps.git"), &world.repo, REFERENCE).await.unwrap();
        scratch.refresh(Duration::from_secs(30)).await.unwrap();
        let last = scratch.tree().await.unwrap();
        Self { world, scratch, last }
    }

    fn tree(&self) -> PathBuf {
        self.world.repo.clone()
    }

    /// Takes whatever is there, and gives what differs from the look before.
    async fn look(&mut self) -> Changes {
        let seen = self.scratch.look().await.unwrap();
        let taken: Vec<&[u8]> =
            seen.iter().filter(|seen| !seen.is_repository()).map(|seen| &*seen.path).collect();
        let tree = self.scratch.stage(&taken, &[]).await.unwrap();
        let changes = self.scratch.changes(&self.last, &tree, PATCH_MAX).await.unwrap();
        self.last = tree;
        changes
    }
}

fn kinds(changes: &Changes) -> Vec<(&str, ChangeKind)> {
    changes.files.iter().map(|change| (change.path.as_str(), change.kind)).collect()
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Everything of the tree's own repository that must stay as it is.
fn own_state(tree: &Path) -> (String, Vec<u8>, String) {
    let index = std::fs::read(tree.join(".git/index")).unwrap();
    (git(tree, &["rev-parse", "HEAD"]), index, git(tree, &["for-each-ref"]))
}

#[tokio::test]
async fn every_kind_of_change_is_found_and_the_repository_is_left_alone() {
    let world = World::new();
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";
    world.commit("moved.txt", old);
    world.commit("gone.txt", "bye\n");
    let mut looking = Looking::at(world).await;
    let tree = looking.tree();
    let before = own_state(&tree);
    assert!(looking.look().await.files.is_empty());
    write(&tree.join("README.md"), "hello\nyou\n");
    write(&tree.join("src/new.rs"), "fn main() {}\n");
    write(&tree.join("pixels"), [0_u8, 1, 2, 255]);
    std::fs::rename(tree.join("moved.txt"), tree.join("there.txt")).unwrap();
    std::fs::remove_file(tree.join("gone.txt")).unwrap();
    let changes = looking.look().await;
    assert_eq!(
        kinds(&changes),
        [
            ("README.md", ChangeKind::Modified),
            ("gone.txt", ChangeKind::Deleted),
            ("pixels", ChangeKind::Created),
            ("src/new.rs", ChangeKind::Created),
            ("there.txt", ChangeKind::Renamed),
        ]
    );
    let by_path = |path: &str| changes.files.iter().find(|change| change.path == path).unwrap();
    assert_eq!((by_path("README.md").added, by_path("README.md").removed), (1, 0));
    assert!(by_path("pixels").binary && !by_path("README.md").binary);
    assert_eq!(by_path("there.txt").old_path.as_deref(), Some("moved.txt"));
    assert!(changes.piece(by_path("README.md")).unwrap().ends_with("@@ -1 +1,2 @@\n hello\n+you\n"));
    assert!(changes.piece(by_path("pixels")).unwrap().contains("Binary files"));
    assert_eq!(own_state(&tree), before);
    assert!(looking.look().await.files.is_empty(), "and nothing is found twice");
}

#[tokio::test]
async fn links_modes_and_a_file_that_becomes_a_folder() {
    let mut looking = Looking::at(World::new()).await;
    let tree = looking.tree();
    write(&tree.join("run.sh"), "echo\n");
    symlink("/etc/passwd", tree.join("link")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    write(&tree.join("thing"), "file\n");
    looking.look().await;
    std::fs::set_permissions(tree.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_file(tree.join("thing")).unwrap();
    write(&tree.join("thing/inside"), "now a folder\n");
    std::fs::remove_file(tree.join("link")).unwrap();
    write(&tree.join("link"), "no link any more\n");
    let changes = looking.look().await;
    let listing = git(&looking.world.dir.path().join("steps.git"), &["ls-tree", "-r", &looking.last]);
    assert!(listing.contains("100755 blob") && listing.contains("\trun.sh"), "{listing}");
    assert!(listing.contains("\tthing/inside") && !listing.contains("\tthing\n"), "{listing}");
    assert!(listing.contains("120000 blob") && listing.contains("\tdangling"), "{listing}");
    let link = changes.files.iter().find(|change| change.path == "link").unwrap();
    assert_eq!(link.kind, ChangeKind::Modified);
    assert!(changes.piece(link).unwrap().contains("+no link any more"), "{changes:?}");
    assert!(!changes.patch.contains("root:"), "a link is never followed");
}

#[tokio::test]
async fn what_is_ignored_and_what_lies_in_other_repositories_stays_out() {
    let world = World::new();
    world.commit(".gitignore", "target/\n");
    let mut looking = Looking::at(world).await;
    let tree = looking.tree();
    write(&tree.join("target/out.o"), "x");
    std::fs::write(tree.join(".git/info/exclude"), "scratchpad\n").unwrap();
    write(&tree.join("scratchpad"), "x");
    for (nested, commits) in [("empty", false), ("full", true)] {
        let dir = tree.join(nested);
        write(&dir.join("file"), "x");
        git(&dir, &["init", "-q"]);
        if commits {
            git(&dir, &["add", "."]);
            git(&dir, &["commit", "-qm", "x"]);
        }
    }
    write(&tree.join("seen"), "x");
    let seen = looking.scratch.look().await.unwrap();
    assert_eq!(seen.iter().filter(|seen| seen.is_repository()).count(), 2, "{seen:?}");
    assert_eq!(kinds(&looking.look().await), [("seen", ChangeKind::Created)]);
}

#[tokio::test]
async fn hostile_settings_and_attributes_are_not_obeyed() {
    let world = World::new();
    // As in a sandbox: what the clone began with is borrowed from where nobody inside can remove it.
    git(world.dir.path(), &["clone", "-q", "--bare", "repo", "mirror.git"]);
    let borrowed = world.dir.path().join("mirror.git/objects");
    std::fs::write(world.repo.join(".git/objects/info/alternates"), format!("{}\n", borrowed.display()))
        .unwrap();
    let ran = world.dir.path().join("ran");
    let mut looking = Looking::at(world).await;
    let tree = looking.tree();
    let run = format!("touch {}; sleep 600", ran.display());
    for (name, value) in [
        ("core.fsmonitor", run.as_str()),
        ("filter.evil.clean", &run),
        ("filter.evil.required", "true"),
        ("diff.evil.command", &run),
        ("diff.evil.textconv", &run),
        ("core.hooksPath", "hooks"),
        ("core.worktree", "/"),
    ] {
        git(&tree, &["config", name, value]);
    }
    let attributes = "* filter=evil diff=evil ident\n*.u16 working-tree-encoding=UTF-16\n";
    write(&tree.join(".gitattributes"), attributes);
    write(&tree.join("text.txt"), "words\n");
    write(&tree.join("bad.u16"), "three");
    let changes = looking.look().await;
    assert_eq!(changes.files.len(), 3, "{changes:?}");
    assert!(!ran.exists());
    std::fs::remove_dir_all(tree.join(".git")).unwrap();
    write(&tree.join("after.txt"), "still seen\n");
    assert_eq!(kinds(&looking.look().await), [("after.txt", ChangeKind::Created)]);
}

#[tokio::test]
async fn a_submodule_is_not_looked_into() {
    let world = World::new();
    let sub = world.repo.join("sub");
    write(&sub.join("file"), "x");
    git(&sub, &["init", "-q"]);
    git(&sub, &["add", "."]);
    git(&sub, &["commit", "-qm", "x"]);
    git(&world.repo, &["add", "sub"]);
    git(&world.repo, &["commit", "-qm", "a repository within"]);
    let ran = world.dir.path().join("ran");
    git(&sub, &["config", "core.fsmonitor", &format!("touch {}", ran.display())]);
    let mut looking = Looking::at(world).await;
    write(&looking.tree().join("sub/other"), "x");
    assert!(looking.look().await.files.is_empty());
    assert!(!ran.exists());
}

#[tokio::test]
async fn a_repository_without_a_commit_begins_with_nothing() {
    for format in ["sha1", "sha256"] {
        let world = World::new();
        std::fs::remove_dir_all(world.repo.join(".git")).unwrap();
        git(&world.repo, &["init", "-q", &format!("--object-format={format}")]);
        let mut looking = Looking::at(world).await;
        assert_eq!(looking.scratch.start(), None);
        assert_eq!(kinds(&looking.look().await), [("README.md", ChangeKind::Created)], "{format}");
        let commit = looking.scratch.commit(&looking.last, None, "first").await.unwrap();
        assert_eq!(commit.len(), if format == "sha256" { 64 } else { 40 });
    }
}

#[tokio::test]
async fn what_was_staged_by_hand_before_is_not_taken_for_the_commit() {
    let world = World::new();
    std::fs::write(world.repo.join("staged"), "x").unwrap();
    git(&world.repo, &["add", "staged"]);
    let mut looking = Looking::at(world).await;
    assert_eq!(kinds(&looking.look().await), [("staged", ChangeKind::Created)]);
}

#[tokio::test]
async fn steps_are_pushed_and_taken_up_again() {
    let world = World::new();
    let origin = world.dir.path().join("origin.git");
    git(world.dir.path(), &["init", "-q", "--bare", origin.to_str().unwrap()]);
    git(&world.repo, &["push", "-q", origin.to_str().unwrap(), "main"]);
    let mut looking = Looking::at(world).await;
    write(&looking.tree().join("a"), "1");
    looking.look().await;
    let start = looking.scratch.start().unwrap().to_owned();
    let commit = looking.scratch.commit(&looking.last, Some(&start), "one").await.unwrap();
    let limit = Duration::from_secs(30);
    looking.scratch.push(origin.to_str().unwrap(), &commit, &[], limit).await.unwrap();
    assert_eq!(git(&origin, &["rev-parse", REFERENCE]), commit);
    assert_eq!(git(&origin, &["rev-parse", &format!("{commit}^{{tree}}")]), looking.last);
    // Another process takes it up where this one was killed, also in the middle of a write.
    std::fs::write(looking.world.dir.path().join("steps.git/index.lock"), "").unwrap();
    let Looking { world, last, .. } = looking;
    let mut next = Looking::at(world).await;
    assert_eq!((next.last.clone(), next.scratch.start()), (last, Some(commit.as_str())));
    write(&next.tree().join("b"), "2");
    assert_eq!(kinds(&next.look().await), [("b", ChangeKind::Created)]);
}

#[tokio::test]
async fn what_goes_away_while_it_is_looked_at_is_gone() {
    let mut looking = Looking::at(World::new()).await;
    let tree = looking.tree();
    for name in ["README.md", "fleeting", "staying"] {
        write(&tree.join(name), "changed\n");
    }
    let seen = looking.scratch.look().await.unwrap();
    assert_eq!(seen.len(), 3);
    std::fs::remove_file(tree.join("README.md")).unwrap();
    std::fs::remove_file(tree.join("fleeting")).unwrap();
    let paths: Vec<&[u8]> = seen.iter().map(|seen| &*seen.path).collect();
    let after = looking.scratch.stage(&paths, &[]).await.unwrap();
    let changes = looking.scratch.changes(&looking.last, &after, PATCH_MAX).await.unwrap();
    assert_eq!(kinds(&changes), [("README.md", ChangeKind::Deleted), ("staying", ChangeKind::Created)]);
    looking.last = after;
    // And what a tree cannot hold is forgotten when it is said so.
    std::fs::remove_file(tree.join("staying")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(tree.join("staying")).status().unwrap();
    assert!(made.success());
    let after = looking.scratch.stage(&[], &[b"staying"]).await.unwrap();
    let changes = looking.scratch.changes(&looking.last, &after, PATCH_MAX).await.unwrap();
    assert_eq!(kinds(&changes), [("staying", ChangeKind::Deleted)]);
}
