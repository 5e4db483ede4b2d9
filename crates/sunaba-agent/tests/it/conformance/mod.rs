//! One suite for every runtime: what each is expected to do is data, and both an unexpected failure and an
//! unexpected success break the test.
#![expect(clippy::print_stdout, reason = "how long things take is part of what the suite shows")]

mod cases;
pub(crate) mod stage;
mod steering;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::{FutureExt as _, StreamExt as _};

use self::stage::Kind;

/// Programs that run at the same time.
const AT_ONCE: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native() {
    as_expected(Kind::Native, include_str!("expected/native.txt")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude() {
    as_expected(Kind::Claude, include_str!("expected/claude-2.1.197.txt")).await;
}

async fn as_expected(kind: Kind, expected: &'static str) {
    let expected = read(expected);
    let cases = cases::all();
    let names: Vec<_> = cases.iter().map(|(name, _)| *name).collect();
    let mut listed: Vec<_> = expected.keys().copied().collect();
    listed.sort_by_key(|name| names.iter().position(|known| known == name));
    assert_eq!(listed, names, "the list of what is expected names every case and no other");
    let runs = cases.into_iter().map(|(name, run)| async move {
        let began = Instant::now();
        let passed = AssertUnwindSafe(run(kind)).catch_unwind().await.is_ok();
        println!(
            "{kind:?}: {name} {} after {:.1?}",
            if passed { "passed" } else { "failed" },
            began.elapsed()
        );
        (name, passed)
    });
    let done: Vec<_> = futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    let surprises: Vec<_> = done.iter().filter(|(name, passed)| expected[name] != *passed).collect();
    assert!(surprises.is_empty(), "{kind:?}: not as expected (case, passed): {surprises:?}");
}

/// Case, yes or no, and a reason for no.
fn read(expected: &'static str) -> BTreeMap<&'static str, bool> {
    let lines = expected.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            match words.as_slice() {
                [case, "yes"] => (*case, true),
                [case, "no", _, ..] => (*case, false),
                _ => panic!("a case is followed by yes, or by no and why: {line}"),
            }
        })
        .collect()
}
