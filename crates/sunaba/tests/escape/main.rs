//! Ways out of a sandbox. Each is tried first without the guard that it is up against, where it must
//! succeed, and then in a real sandbox that a real server made, where it must not.
//!
//! Without its guard an attempt is harmless by design: it aims at decoys that were made for it, as a user
//! that owns nothing else or in namespaces of its own; where only root can show that it works, it opens
//! and asks, and changes nothing.
//!
//! Needs `sunaba-worker` beside `sunaba`, bubblewrap, git, curl, iproute2 and python3; fails loudly without.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod attempt;
mod attempts;
mod bare;
mod decoys;
mod judged;
mod outcome;
mod sandboxes;
mod suite;
mod world;

use crate::decoys::is_root;
use crate::world::{Daemon, Kind};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_a_local_sandbox_of_root() {
    if is_root() {
        suite::run(Kind::LocalAsRoot, None).await;
    } else {
        left_out("the escape suite on local sandboxes of root", "run the tests as root for it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_a_local_sandbox_of_an_ordinary_user() {
    suite::run(Kind::LocalAsUser, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_a_container() {
    match (std::env::var("SUNABA_TEST_DOCKER_HOST"), std::env::var("SUNABA_TEST_DOCKER_IMAGE")) {
        (Ok(host), Ok(image)) => suite::run(Kind::Docker, Some(&Daemon { host, image })).await,
        _ => left_out(
            "the escape suite on containers",
            "there is no container daemon (`make test` starts one as root)",
        ),
    }
}

/// Says what is not tried here; the summary of the whole run repeats it.
#[expect(clippy::print_stderr, reason = "what is left out is said")]
fn left_out(what: &str, why: &str) {
    use std::io::Write as _;
    eprintln!("left out: {what}: {why}");
    if let Some(notes) = std::env::var_os("SUNABA_LEFT_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
        drop(file.and_then(|mut file| file.write_all(format!("{what}: {why}\n").as_bytes())));
    }
}
