//! What the conformance suite finds, as one text an agent.
//!
//! ```text
//! case   yes   what it does
//! case   no         "words of its failure"   why
//! case   sometimes  "words of its failure"   why
//! measured what from to
//! ```
//!
//! A line that cannot be read is left out; the suite and a test here see to it that there is none.

/// Every case, and what it is about.
pub const CASES: [(&str, &str); 21] = [
    ("tool_use", "its tools and what came of them are told"),
    ("streamed_output", "a command's output is told while it runs"),
    ("file_edits", "edits are told with their difference"),
    ("message_in_a_tool", "a message during a tool"),
    ("messages_keep_order", "several messages keep their order"),
    ("message_at_the_end", "a message during the last answer"),
    ("interrupt_in_a_tool", "an interrupt of a command"),
    ("interrupt_in_a_stream", "an interrupt of a model call"),
    ("told_to_end", "told to end: nothing is left"),
    ("permission_allowed", "asks before a tool; allowed"),
    ("permission_denied", "asks before a tool; denied"),
    ("permission_rewritten", "asks before a tool; told to do something else"),
    ("resume_after_kill", "goes on after a kill, in another sandbox"),
    ("fork", "goes on with a copy of a conversation"),
    ("usage", "tokens of the run"),
    ("call_tried_again", "a model call that is tried again is told"),
    ("call_cut_in_the_middle", "a model call that is cut in the middle of its answer"),
    ("call_cut_at_its_end", "a model call that is cut after its last word"),
    ("call_refused", "a model call that is refused fails the run"),
    ("used_up_turns", "stops when its turns are used up"),
    ("helper", "helpers are told of"),
];

/// Everything that is measured, and what it is.
pub const MEASURED: [(&str, &str); 3] = [
    ("message_to_idle", "a message to an idle agent: until the model is asked"),
    ("interrupt_in_a_stream", "an interrupt in a stream: until idle is seen"),
    ("interrupt_in_a_tool", "an interrupt of a command that ignores SIGINT and SIGTERM: until it is gone"),
];

/// Whether an agent does what a case asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Always.
    Yes,
    /// Never.
    No,
    /// Depending on how busy the machine is.
    Sometimes,
}

impl Verdict {
    /// As the files and the API say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Sometimes => "sometimes",
        }
    }
}

/// What was found in one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseResult {
    /// Which.
    pub case: &'static str,
    /// Whether it does what the case asks.
    pub verdict: Verdict,
    /// Words of the case's failure, when it does not: one that fails for another reason is no proof.
    pub failure: &'static str,
    /// What it does instead, or how it does it; may be empty.
    pub note: &'static str,
}

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// What.
    pub what: &'static str,
    /// The shortest, in milliseconds.
    pub from_ms: u32,
    /// The longest.
    pub to_ms: u32,
}

const MEASURED_WORD: &str = "measured ";

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

/// Reads the cases.
pub(super) fn read(text: &'static str) -> Vec<CaseResult> {
    lines(text).filter(|line| !line.starts_with(MEASURED_WORD)).filter_map(read_case).collect()
}

fn read_case(line: &'static str) -> Option<CaseResult> {
    let (case, rest) = line.split_once(' ')?;
    let (verdict, rest) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let verdict = match verdict {
        "yes" => return Some(CaseResult { case, verdict: Verdict::Yes, failure: "", note: rest.trim() }),
        "no" => Verdict::No,
        "sometimes" => Verdict::Sometimes,
        _ => return None,
    };
    let (failure, note) = rest.trim().strip_prefix('"')?.split_once('"')?;
    let is_whole = !failure.is_empty() && !note.trim().is_empty();
    is_whole.then_some(CaseResult { case, verdict, failure, note: note.trim() })
}

/// Reads what was measured.
pub(super) fn read_measured(text: &'static str) -> Vec<Measured> {
    lines(text).filter_map(|line| read_time(line.strip_prefix(MEASURED_WORD)?)).collect()
}

fn read_time(words: &'static str) -> Option<Measured> {
    let mut words = words.split_whitespace();
    let what = words.next()?;
    Some(Measured { what, from_ms: words.next()?.parse().ok()?, to_ms: words.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::super::KNOWN;
    use super::*;

    #[test]
    fn every_agent_has_every_case_and_every_measurement() {
        let names = |known: &[(&'static str, &str)]| known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        for agent in KNOWN {
            let cases: Vec<_> = agent.results().iter().map(|result| result.case).collect();
            assert_eq!(cases, names(&CASES), "{}", agent.name);
            let measured: Vec<_> = agent.measured().iter().map(|measured| measured.what).collect();
            assert_eq!(measured, names(&MEASURED), "{}", agent.name);
            let read = cases.len() + measured.len();
            assert_eq!(lines(agent.found).count(), read, "{}: a line cannot be read", agent.name);
            assert!(agent.measured().iter().all(|measured| measured.from_ms <= measured.to_ms));
        }
    }

    #[test]
    fn a_failure_without_its_words_or_its_reason_is_not_read() {
        let text = "a yes\nb yes  so\nc no \"late\"  it polls\nd no it polls\ne no \"late\"\nf maybe\n";
        let read: Vec<_> =
            read(text).iter().map(|result| (result.case, result.failure, result.note)).collect();
        assert_eq!(read, [("a", "", ""), ("b", "", "so"), ("c", "late", "it polls")]);
    }
}
