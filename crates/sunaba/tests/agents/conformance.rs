//! The same cases for every agent; what each is expected to do is data, and both an unexpected failure and an
//! unexpected success break the test.
#![expect(clippy::print_stdout, reason = "how long things take is part of what is shown")]

use std::collections::BTreeMap;
use std::time::Instant;

use crate::agent::{Agent, not_tried};
use crate::world::World;
use crate::{interrupts, permissions, working};

/// What a case found out about an aspect: nothing against it, or why it is not so.
pub(crate) type Findings = Vec<(&'static str, Result<(), String>)>;

/// Every aspect, in the order of the lists.
const ASPECTS: [&str; 11] = [
    "streamed_output",
    "message_in_first_call",
    "edits_on_branch",
    "usage_and_cost",
    "interrupt_in_a_tool",
    "interrupt_before_words",
    "interrupt_in_a_stream",
    "message_when_idle",
    "question_says_what",
    "permission_denied",
    "permission_rewritten",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn native_inside() -> anyhow::Result<()> {
    as_expected(Agent::Native).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_inside() -> anyhow::Result<()> {
    as_expected(Agent::Claude).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_inside() -> anyhow::Result<()> {
    as_expected(Agent::Codex).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_inside() -> anyhow::Result<()> {
    as_expected(Agent::OpenCode).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openhands_inside() -> anyhow::Result<()> {
    if let Some(why) = not_tried(Agent::OpenHands) {
        sunaba_testkit::left_out("OpenHands in a sandbox", &why);
        return Ok(());
    }
    as_expected(Agent::OpenHands).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_inside() -> anyhow::Result<()> {
    as_expected(Agent::Gemini).await
}

async fn as_expected(agent: Agent) -> anyhow::Result<()> {
    let expected = read(agent.expected());
    assert_eq!(expected.keys().copied().collect::<Vec<_>>(), sorted(&ASPECTS), "the list names every aspect");
    let began = Instant::now();
    let world = World::start(agent).await?;
    let (working, interrupts, permissions) = tokio::try_join!(
        working::case(&world, &expected),
        interrupts::case(&world),
        permissions::case(&world)
    )?;
    println!("{agent:?}: all cases took {:.1?}", began.elapsed());
    let found: BTreeMap<_, _> = working.into_iter().chain(interrupts).chain(permissions).collect();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), sorted(&ASPECTS), "every aspect was looked at");
    let surprises: Vec<_> = found
        .iter()
        .filter(|(aspect, outcome)| !expected[*aspect].is(outcome.as_ref().err().map(String::as_str)))
        .collect();
    assert!(surprises.is_empty(), "{agent:?}: not as expected (aspect, failure): {surprises:#?}");
    Ok(())
}

fn sorted<'a>(aspects: &[&'a str]) -> Vec<&'a str> {
    let mut sorted = aspects.to_vec();
    sorted.sort_unstable();
    sorted
}

/// What is expected of an aspect.
pub(crate) enum Expected {
    Holds,
    /// Not, with these words in what is found: a failure for another reason is no proof of what it says.
    Fails(&'static str),
    /// Or holds, depending on how busy the machine is.
    MayFail(&'static str),
}

impl Expected {
    fn is(&self, failure: Option<&str>) -> bool {
        match (self, failure) {
            (Self::Holds, failure) => failure.is_none(),
            (Self::Fails(words), Some(failure)) => failure.contains(words),
            (Self::Fails(_), None) => false,
            (Self::MayFail(words), failure) => failure.is_none_or(|failure| failure.contains(words)),
        }
    }
}

pub(crate) type Expectations = BTreeMap<&'static str, Expected>;

/// Aspect, and yes, no or sometimes; for the last two the words of the failure in quotes, and why it is so.
fn read(expected: &'static str) -> Expectations {
    let lines = expected.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let read = |line: &'static str| {
        let (aspect, rest) = line.split_once(' ')?;
        let (verdict, rest) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        if verdict == "yes" {
            return Some((aspect, Expected::Holds));
        }
        let (words, why) = rest.trim().strip_prefix('"')?.split_once('"')?;
        (!words.is_empty() && !why.trim().is_empty()).then_some(())?;
        match verdict {
            "no" => Some((aspect, Expected::Fails(words))),
            "sometimes" => Some((aspect, Expected::MayFail(words))),
            _ => None,
        }
    };
    let wrong = "an aspect is followed by yes, or by no or sometimes, its failure in quotes and why";
    lines.map(|line| read(line).unwrap_or_else(|| panic!("{wrong}: {line}"))).collect()
}
