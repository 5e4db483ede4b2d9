//! One suite for every runtime: what each is expected to do is data, and both an unexpected failure and an
//! unexpected success break the test.
#![expect(clippy::print_stdout, reason = "how long things take is part of what the suite shows")]

mod cases;
mod cuts;
pub(crate) mod stage;
mod steering;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::{FutureExt as _, StreamExt as _};
use sunaba_types::agents::{CaseResult, Verdict};

use self::stage::{Kind, left_out, not_tried};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native() {
    as_expected(Kind::Native).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude() {
    as_expected(Kind::Claude).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex() {
    as_expected(Kind::Codex).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode() {
    as_expected(Kind::OpenCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_adapter() {
    as_expected(Kind::ClaudeAdapter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini() {
    as_expected(Kind::Gemini).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openhands() {
    as_expected(Kind::OpenHands).await;
}

async fn as_expected(kind: Kind) {
    if let Some(why) = not_tried(kind) {
        return left_out(&format!("the conformance of {}", kind.known().title), &why);
    }
    let known = kind.known().results();
    let expected: BTreeMap<_, _> = known.iter().map(|result| (result.case, result)).collect();
    let cases = cases::all();
    let names: Vec<_> = cases.iter().map(|(name, _)| *name).collect();
    let listed: Vec<_> = known.iter().map(|result| result.case).collect();
    assert_eq!(listed, names, "the list of what is expected names every case and no other");
    let runs = cases.into_iter().map(|(name, run)| async move { (name, run, tried(kind, name, run).await) });
    let done: Vec<_> = futures::stream::iter(runs).buffer_unordered(kind.at_once()).collect().await;
    let mut surprises = Vec::new();
    for (name, run, failure) in done {
        if is_expected(expected[name], failure.as_deref()) {
            continue;
        }
        println!("{kind:?}: {name} is not as expected: {failure:?}");
        // Somebody else's program on a busy machine has a second try, alone; ours has not.
        let is_ours = matches!(kind, Kind::Native);
        if is_ours || !is_expected(expected[name], tried(kind, name, run).await.as_deref()) {
            surprises.push((name, failure));
        }
    }
    assert!(surprises.is_empty(), "{kind:?}: not as expected (case, failure): {surprises:#?}");
}

/// Runs a case; why it failed.
async fn tried(kind: Kind, name: &str, run: cases::Case) -> Option<String> {
    let began = Instant::now();
    let failure = AssertUnwindSafe(run(kind)).catch_unwind().await.err().map(|panic| words_of(&*panic));
    let word = if failure.is_none() { "passed" } else { "failed" };
    println!("{kind:?}: {name} {word} after {:.1?}", began.elapsed());
    failure
}

/// Whether it is what is known of the case: one that fails for another reason is no proof of what is said.
fn is_expected(known: &CaseResult, failure: Option<&str>) -> bool {
    let as_said = failure.is_some_and(|failure| failure.contains(known.failure));
    match known.verdict {
        Verdict::Yes => failure.is_none(),
        Verdict::No => as_said,
        Verdict::Sometimes => failure.is_none() || as_said,
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[test]
fn a_case_that_fails_for_another_reason_is_a_surprise() {
    let known = |verdict| CaseResult { case: "one", verdict, failure: "came late", note: "it polls" };
    let yes = CaseResult { failure: "", ..known(Verdict::Yes) };
    assert!(is_expected(&yes, None) && !is_expected(&yes, Some("came late")));
    let no = known(Verdict::No);
    assert!(is_expected(&no, Some("the output came late")) && !is_expected(&no, None));
    assert!(!is_expected(&no, Some("the program is not installed")));
    let may = known(Verdict::Sometimes);
    assert!(is_expected(&may, None) && is_expected(&may, Some("it came late")));
    assert!(!is_expected(&may, Some("another reason")));
}
