//! How much a sandbox may push: in all, as far as it unfolds, and while the disk has room.

use std::path::{Path, PathBuf};

use sunaba_gateway::PushRoom;
use sunaba_types::Resources;

use crate::support::{BRANCH, Setup, World, commit, git, git_over_http};

/// A world whose sandbox may push so many bytes in all.
async fn with_push_bytes(bytes: f64) -> World {
    let disks = bytes / (Resources::default().disk_gb * 1_073_741_824.0);
    let mut push_room = PushRoom::default();
    push_room.disks = disks;
    World::new(Setup { model: "script:default".into(), push_room, ..Setup::default() }).await
}

fn clone(world: &World) -> PathBuf {
    let dir = world.path("clone");
    git(world.dir.path(), &["clone", "-q", "-b", BRANCH, world.mirror.dir().to_str().unwrap(), "clone"]);
    git(&dir, &["remote", "set-url", "origin", &world.git_url()]);
    dir
}

/// Bytes that no program makes shorter.
fn noise(size: u32, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..size).map(|_| next()).collect()
}

fn commit_noise(dir: &Path, name: &str, size: u32, seed: u32) {
    std::fs::write(dir.join(name), noise(size, seed)).unwrap();
    git(dir, &["add", "."]);
    git(dir, &["commit", "-q", "-m", name]);
}

fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let sizes = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => size_of(&entry.path()),
        found => found.len(),
    });
    sizes.sum()
}

#[tokio::test]
async fn a_sandbox_pushes_so_much_in_all_and_is_told_what_to_do() {
    let world = with_push_bytes(3_000_000.0).await;
    let dir = clone(&world);
    commit_noise(&dir, "one", 2_000_000, 1);
    let (success, printed) = git_over_http(&dir, &["push", "-q", "origin", BRANCH]).await;
    assert!(success, "{printed}");
    let before = world.mirror.branch_commit(BRANCH).await.unwrap();
    commit_noise(&dir, "two", 2_000_000, 2);
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success && printed.contains("[remote rejected]"), "{printed}");
    assert!(printed.contains("may push 0.00 GiB in all") && printed.contains(".gitignore"), "{printed}");
    assert_eq!(world.mirror.branch_commit(BRANCH).await.unwrap(), before);
    // What it was told works.
    git(&dir, &["rm", "-q", "--cached", "two"]);
    git(&dir, &["commit", "-q", "--amend", "--allow-empty", "-m", "without"]);
    let (success, printed) = git_over_http(&dir, &["push", "-q", "origin", BRANCH]).await;
    assert!(success, "{printed}");
    let events = world.events("gateway.git", 3).await;
    assert_eq!(events.iter().map(|event| &event["allowed"]).collect::<Vec<_>>(), [true, false, true]);
}

#[tokio::test]
async fn a_push_that_unfolds_to_more_is_ended() {
    let world = with_push_bytes(30_000_000.0).await;
    let dir = clone(&world);
    let objects = world.mirror.dir().join("objects");
    let before = (world.mirror.branch_commit(BRANCH).await.unwrap(), size_of(&objects));
    // Nearly the same again and again: little as a pack, much as the files that git makes of it.
    let mut content = noise(3_000_000, 3);
    for number in 0..60 {
        content[number] ^= 1;
        std::fs::write(dir.join(format!("same-{number}")), &content).unwrap();
    }
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "-q", "-m", "unfolds"]);
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success && printed.contains("less than this push takes"), "{printed}");
    assert_eq!((world.mirror.branch_commit(BRANCH).await.unwrap(), size_of(&objects)), before);
    // The mirror is as it was, and takes what is within bounds.
    git(&dir, &["reset", "-q", "--hard", "HEAD~1"]);
    commit(&dir, "made.txt", "x");
    let (success, printed) = git_over_http(&dir, &["push", "-q", "origin", BRANCH]).await;
    assert!(success, "{printed}");
}

#[tokio::test]
async fn nothing_is_pushed_onto_a_disk_that_is_nearly_full() {
    let mut push_room = PushRoom::default();
    push_room.disk_free_bytes = u64::MAX;
    let world = World::new(Setup { model: "script:default".into(), push_room, ..Setup::default() }).await;
    let dir = clone(&world);
    commit(&dir, "made.txt", "x");
    let (success, printed) = git_over_http(&dir, &["push", "origin", BRANCH]).await;
    assert!(!success, "{printed}");
    assert!(
        printed.contains("remote: the server's disk has") && printed.contains("push again later"),
        "{printed}"
    );
    // Nor by a client that asks for nothing first.
    let url = format!("{}/git-receive-pack", world.git_url());
    let answer = reqwest::Client::new().post(url).body("0000").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 507);
    let (success, printed) = git_over_http(&dir, &["fetch", "-q", "origin"]).await;
    assert!(success, "{printed}");
}
