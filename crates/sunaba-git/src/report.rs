//! The report at the end of a push: made for refusals, read as evidence of what git did.

use crate::ReceiveCommands;
use crate::pktline::{next_line, pkt_line};

/// What git did with one ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefReport {
    /// The full name of the ref.
    pub name: String,
    /// Why it was not written; none if it was.
    pub refused: Option<String>,
}

/// The answer to a push that is refused: git prints `reason` beside each ref.
pub fn refusal_report(commands: &ReceiveCommands, reason: &str) -> Vec<u8> {
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(800).collect();
    let mut report = pkt_line(b"unpack ok\n");
    for update in &commands.updates {
        report.extend(pkt_line(format!("ng {} {reason}\n", update.name).as_bytes()));
    }
    report.extend(b"0000");
    if !has_side_band(commands) {
        return report;
    }
    // Band 1 carries the report; 900 bytes a line also fit the older, smaller side band.
    let mut framed = Vec::new();
    for part in report.chunks(900) {
        let mut line = vec![1];
        line.extend_from_slice(part);
        framed.extend(pkt_line(&line));
    }
    framed.extend(b"0000");
    framed
}

/// Reads git's own answer to a push. What cannot be read is left out.
pub fn read_report(commands: &ReceiveCommands, answer: &[u8]) -> Vec<RefReport> {
    let report = if has_side_band(commands) { first_band(answer) } else { answer.to_vec() };
    lines(&report).filter_map(read_line).collect()
}

fn has_side_band(commands: &ReceiveCommands) -> bool {
    commands.has("side-band-64k") || commands.has("side-band")
}

fn first_band(answer: &[u8]) -> Vec<u8> {
    let parts = lines(answer).filter_map(|line| line.strip_prefix(&[1]));
    parts.flatten().copied().collect()
}

/// The lines up to the first flush or damage.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let line = next_line(rest).ok().flatten()?;
        rest = rest.get(line.len() + 4..).unwrap_or_default();
        Some(line)
    })
}

fn read_line(line: &[u8]) -> Option<RefReport> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\n');
    if let Some(name) = line.strip_prefix("ok ") {
        return Some(RefReport { name: name.to_owned(), refused: None });
    }
    let (name, reason) = line.strip_prefix("ng ")?.split_once(' ')?;
    Some(RefReport { name: name.to_owned(), refused: Some(reason.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefUpdate;

    #[test]
    fn a_refusal_reads_back_with_and_without_side_band() {
        let update = |name: &str| RefUpdate { old: "0".repeat(40), new: "1".repeat(40), name: name.into() };
        let long = format!("refs/heads/{}", "x".repeat(150));
        for capabilities in [vec![], vec!["side-band-64k".to_owned()]] {
            let updates = (0..20).map(|n| update(&format!("{long}{n}"))).collect();
            let commands = ReceiveCommands { updates, capabilities, consumed: 0 };
            let read = read_report(&commands, &refusal_report(&commands, "not\nyours"));
            assert_eq!(read.len(), 20);
            assert!(read.iter().all(|report| report.refused.as_deref() == Some("not yours")));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(answer in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..500)) {
            read_report(&ReceiveCommands::default(), &answer);
            let side_band = vec!["side-band".to_owned()];
            read_report(&ReceiveCommands { capabilities: side_band, ..ReceiveCommands::default() }, &answer);
        }
    }
}
