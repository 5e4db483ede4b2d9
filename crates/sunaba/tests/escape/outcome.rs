//! What came of the attempts.

use std::collections::BTreeMap;

use crate::attempt::Attempt;

/// What each attempt wrote, by its name.
pub(crate) type Results = BTreeMap<String, String>;

/// Reads the driver's lines.
pub(crate) fn parse(said: &str) -> Results {
    let lines = said.lines().filter_map(|line| line.strip_prefix("RESULT "));
    lines
        .filter_map(|line| {
            let (name, text) = line.split_once(' ')?;
            Some((name.to_owned(), String::from_utf8_lossy(&decode(text)).into_owned()))
        })
        .collect()
}

/// Base64, as the tool of that name writes it; what is not of its alphabet is left out.
fn decode(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0u32, 0);
    for value in text.bytes().filter_map(|byte| ALPHABET.iter().position(|known| *known == byte)) {
        held = held << 6 | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    bytes
}

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It got through.
    Through,
    /// It was refused.
    Refused,
    /// There is nothing of the kind on this machine.
    NotHere,
    /// It was not made at all.
    Unmade,
}

/// Judges what an attempt wrote.
pub(crate) fn judge(results: Option<&Results>, name: &str, canary: &str) -> Ended {
    match results.and_then(|results| results.get(name)) {
        Some(text) if text.contains(canary) || text.contains("GOT-THROUGH") => Ended::Through,
        Some(text) if text.contains("NOT-HERE") => Ended::NotHere,
        Some(_) => Ended::Refused,
        None => Ended::Unmade,
    }
}

/// What is told in the end.
#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: BTreeMap<&'static str, usize>,
    attempts: usize,
    succeeded_without: usize,
    refused: usize,
    left_out: Vec<String>,
    faults: Vec<String>,
}

impl Report {
    /// Takes one attempt's two halves.
    pub(crate) fn take(
        &mut self,
        category: &'static str,
        attempt: &Attempt,
        (without, said_without): (Ended, &str),
        (inside, said_inside): (Ended, &str),
    ) {
        let name = format!("{category}/{}", attempt.name);
        if matches!(without, Ended::NotHere | Ended::Unmade) {
            let why = if without == Ended::NotHere { said_without.trim() } else { "needs root outside" };
            self.left_out.push(format!("{name}: {why}"));
            // What cannot be shown to work outside proves nothing inside, unless it gets through.
            if inside != Ended::Through {
                return;
            }
        }
        self.attempts += 1;
        *self.counts.entry(category).or_default() += 1;
        match without {
            Ended::Through => self.succeeded_without += 1,
            _ => self
                .faults
                .push(format!("{name} fails without its guard ({}): {said_without}", attempt.without.word())),
        }
        match inside {
            Ended::Refused | Ended::NotHere => self.refused += 1,
            Ended::Through => {
                self.faults.push(format!("{name} GOT THROUGH (guard: {}): {said_inside}", attempt.guard));
            }
            Ended::Unmade => self.faults.push(format!("{name} was not made inside")),
        }
    }

    /// Takes an attempt that was judged by what it left on the host.
    pub(crate) fn take_judged(&mut self, category: &'static str, name: &str, without: bool, inside: bool) {
        self.attempts += 1;
        *self.counts.entry(category).or_default() += 1;
        if without {
            self.succeeded_without += 1;
        } else {
            self.faults.push(format!("{category}/{name} fails without its guard"));
        }
        if inside {
            self.faults.push(format!("{category}/{name} GOT THROUGH"));
        } else {
            self.refused += 1;
        }
    }

    /// Notes an attempt that is not made here.
    pub(crate) fn leave_out(&mut self, category: &'static str, attempt: &Attempt, why: &str) {
        self.left_out.push(format!("{category}/{}: {why}", attempt.name));
    }

    /// Something that no attempt may bring about.
    pub(crate) fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Prints the summary and fails the test if anything got through or proved nothing.
    #[expect(clippy::print_stderr, reason = "the summary of a test run")]
    pub(crate) fn finish(self, world: &str) {
        eprintln!(
            "{world}: {} attempts, {} without the guard succeeded, {} refused",
            self.attempts, self.succeeded_without, self.refused
        );
        let counts: Vec<String> = self.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        eprintln!("{world}: {}", counts.join(", "));
        if !self.left_out.is_empty() {
            eprintln!("{world}: left out on this machine:\n  {}", self.left_out.join("\n  "));
        }
        assert!(self.faults.is_empty(), "{world}:\n{}", self.faults.join("\n"));
        assert!(self.attempts >= 60, "{world}: only {} attempts could be made here", self.attempts);
    }
}
