//! One step of the test run: a command, its time and what it counted.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How many tests a stage ran.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// Reads cargo's own line: `test result: ok. 12 passed; 0 failed; …`.
    fn of_line(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix("test result: ")?;
        let number = |word: &str| {
            rest.split(['.', ';']).find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
        };
        Some(Self { passed: number("passed")?, failed: number("failed")? })
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What came of a stage.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) counts: Counts,
    pub(crate) took: Duration,
    pub(crate) ok: bool,
}

/// Runs a command, shows its output as it comes and counts cargo's tests.
pub(crate) fn run(name: &'static str, command: &mut Command) -> anyhow::Result<Report> {
    say(&format!("\n== {name}"))?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut counts = Counts::default();
    let output = child.stdout.take().context("the child's output is piped")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some(more) = Counts::of_line(&line) {
            counts.add(more);
        }
        say(&line)?;
    }
    let ok = child.wait()?.success();
    Ok(Report { name, counts, took: started.elapsed(), ok })
}

/// Runs a command that must succeed and is not counted.
pub(crate) fn require(name: &'static str, command: &mut Command) -> anyhow::Result<()> {
    let report = run(name, command)?;
    if !report.ok {
        bail!("{name} failed");
    }
    Ok(())
}

/// Prints a line.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_line_is_read() {
        let line =
            "test result: ok. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let counts = Counts::of_line(line).unwrap();
        assert_eq!((counts.passed, counts.failed), (12, 1));
        assert!(Counts::of_line("running 12 tests").is_none());
    }
}
