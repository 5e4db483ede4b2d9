//! What a sandbox left in the middle of its work.

use std::path::Path;

use sunaba_git::{LeftBy, Mirror, Unfinished};

use crate::support::{World, git};

const BRANCH: &str = "feature/1-x";
const LATER: i64 = 4_000_000_000;

/// A mirror with the branch of a sandbox.
async fn begun(world: &World) -> (Mirror, String) {
    let base = world.commit("kept.txt", "as it was\n");
    let mirror = world.mirror().await;
    mirror.create_branch(BRANCH, &base).await.unwrap();
    (mirror, base)
}

/// Pushes the work tree as it is, as a commit of this moment, to a name of the mirror.
fn push(world: &World, mirror: &Mirror, to: &str, at: i64) -> String {
    push_on(world, mirror, to, at, "HEAD")
}

/// The same, as a commit that follows another one.
fn push_on(world: &World, mirror: &Mirror, to: &str, at: i64, parent: &str) -> String {
    git(&world.repo, &["add", "-A"]);
    let tree = git(&world.repo, &["write-tree"]);
    let (email, date) = ("user.email=t@sunaba.invalid", format!("{at} +0000"));
    let made = std::process::Command::new("git")
        .current_dir(&world.repo)
        .args(["-c", "user.name=t", "-c", email, "commit-tree", &tree, "-p", parent, "-m", "x"])
        .env("GIT_COMMITTER_DATE", &date)
        .output()
        .unwrap();
    let commit = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    git(&world.repo, &["push", "-q", "-f", &mirror.dir().display().to_string(), &format!("{commit}:{to}")]);
    commit
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.repo.join(name), text).unwrap();
}

fn shown(mirror: &Mirror, path: &str) -> Option<String> {
    let dir: &Path = mirror.dir();
    let output = std::process::Command::new("git")
        .args(["-c", "safe.directory=*", "--git-dir"])
        .arg(dir)
        .args(["show", &format!("refs/heads/{BRANCH}:{path}")])
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn what_was_not_pushed_is_put_on_the_branch_once() {
    let world = World::new();
    let (mirror, base) = begun(&world).await;
    let left = LeftBy { sandbox: "sbx_1", base: &base, branch: BRANCH };
    let take_over = async || mirror.take_over_steps(left, "Unfinished work\n", LATER).await.unwrap();
    assert_eq!(take_over().await, Unfinished::Unknown, "no step arrived");
    write(&world, "new.txt", "made\n");
    std::fs::remove_file(world.repo.join("kept.txt")).unwrap();
    push(&world, &mirror, "refs/sunaba/sbx_1", LATER);
    let taken = take_over().await;
    assert!(matches!(&taken, Unfinished::Committed(_)), "{taken:?}");
    assert_eq!(shown(&mirror, "new.txt").as_deref(), Some("made\n"));
    assert_eq!((shown(&mirror, "kept.txt"), shown(&mirror, "README.md").is_some()), (None, true));
    assert_eq!(take_over().await, Unfinished::Nothing, "it is there now");
    let rest = std::fs::read_dir(mirror.dir()).unwrap().flatten();
    let indexes = rest.filter(|entry| entry.file_name().to_string_lossy().starts_with("index"));
    assert_eq!(indexes.count(), 0, "nothing is left of the work");
}

#[tokio::test]
async fn what_was_pushed_later_and_what_no_step_knows_stays() {
    let world = World::new();
    let (mirror, base) = begun(&world).await;
    let left = LeftBy { sandbox: "sbx_1", base: &base, branch: BRANCH };
    write(&world, "both.txt", "first\n");
    write(&world, "rest.txt", "not committed\n");
    push(&world, &mirror, "refs/sunaba/sbx_1", LATER - 10);
    // The branch gets a later version of one, and one that is in no step; the rest was never committed.
    write(&world, "both.txt", "second\n");
    write(&world, "large.bin", "large\n");
    std::fs::remove_file(world.repo.join("rest.txt")).unwrap();
    push(&world, &mirror, &format!("refs/heads/{BRANCH}"), LATER);
    let taken = mirror.take_over_steps(left, "Unfinished work\n", LATER).await.unwrap();
    assert!(matches!(&taken, Unfinished::Committed(_)), "{taken:?}");
    assert_eq!(shown(&mirror, "both.txt").as_deref(), Some("second\n"));
    assert_eq!(shown(&mirror, "large.bin").as_deref(), Some("large\n"));
    assert_eq!(shown(&mirror, "rest.txt").as_deref(), Some("not committed\n"));
    // A step that was taken after the last commit knows better.
    write(&world, "both.txt", "third\n");
    push(&world, &mirror, "refs/sunaba/sbx_1", LATER + 10);
    mirror.take_over_steps(left, "Unfinished work\n", LATER).await.unwrap();
    assert_eq!(shown(&mirror, "both.txt").as_deref(), Some("third\n"));
}

#[tokio::test]
async fn what_a_later_commit_took_back_stays_away() {
    let world = World::new();
    let (mirror, base) = begun(&world).await;
    let branch = format!("refs/heads/{BRANCH}");
    write(&world, "tried.txt", "no good\n");
    push(&world, &mirror, "refs/sunaba/sbx_1", LATER - 10);
    let tried = push_on(&world, &mirror, &branch, LATER - 5, "HEAD");
    std::fs::remove_file(world.repo.join("tried.txt")).unwrap();
    push_on(&world, &mirror, &branch, LATER, &tried);
    let left = LeftBy { sandbox: "sbx_1", base: &base, branch: BRANCH };
    let taken = mirror.take_over_steps(left, "Unfinished work\n", LATER).await.unwrap();
    assert_eq!(taken, Unfinished::Nothing);
    assert_eq!(shown(&mirror, "tried.txt"), None);
}
