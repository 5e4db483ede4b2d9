//! The whole test run: everything once, counted, named at the end.

use std::process::Command;

use anyhow::bail;

use crate::docker::{self, Daemon};
use crate::stage::{self, Counts, Report, say};
use crate::{on_postgres, schemathesis, tidy};

/// Everything is built once, in one profile.
const CI: &str = "--profile=ci";

/// Runs every suite and prints the counts; fails if anything failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut reports = vec![
        stage::run("format", &mut cargo(&["fmt", "--all", "--check"]))?,
        stage::run(
            "clippy",
            &mut cargo(&["clippy", "--workspace", "--all-targets", CI, "--", "-D", "warnings"]),
        )?,
        stage::run(
            "documentation",
            cargo(&["doc", "--workspace", "--no-deps", "--quiet", CI]).env("RUSTDOCFLAGS", "-D warnings"),
        )?,
        // With the tests: for the programs alone dependencies have other features, and all would be built twice.
        stage::run("build", &mut cargo(&["build", "--workspace", "--all-targets", CI]))?,
    ];
    let mut left_out = Vec::new();
    reports.push(rust_tests(&mut left_out)?);
    reports.push(on_postgres::run(CI)?);
    reports.push(checked("tidy", tidy::check)?);
    reports.push(checked("demonstration", demonstration)?);
    reports.push(checked("schemathesis", schemathesis::run)?);
    summarise(&reports, &left_out)
}

/// Runs them beside a container daemon of their own; what could not be run is named.
fn rust_tests(left_out: &mut Vec<String>) -> anyhow::Result<Report> {
    let notes = std::env::temp_dir().join(format!("sunaba-left-out-{}", std::process::id()));
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast", CI]);
    tests.env("SUNABA_LEFT_OUT", &notes);
    // Kept until the tests are over.
    let daemon = if std::env::var_os(docker::HOST).is_some() { None } else { Some(Daemon::start()) };
    match &daemon {
        Some(Ok(daemon)) => daemon.tell(&mut tests),
        Some(Err(error)) => left_out.push(format!("everything that needs a container daemon: {error:#}")),
        None => {}
    }
    let report = stage::run("Rust tests", &mut tests)?;
    let mut noted: Vec<String> =
        std::fs::read_to_string(&notes).unwrap_or_default().lines().map(str::to_owned).collect();
    noted.sort();
    noted.dedup();
    left_out.append(&mut noted);
    let _ = std::fs::remove_file(&notes);
    Ok(report)
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    command
}

/// A stage that is a function: it passes or says why not, and counts as one test.
fn checked(name: &'static str, check: fn() -> anyhow::Result<()>) -> anyhow::Result<Report> {
    say(&format!("\n== {name}"))?;
    let started = std::time::Instant::now();
    let result = check();
    if let Err(error) = &result {
        say(&format!("{name}: {error:#}"))?;
    }
    let ok = result.is_ok();
    let counts = Counts { passed: u64::from(ok), failed: u64::from(!ok) };
    Ok(Report { name, counts, took: started.elapsed(), ok })
}

/// What `make run` shows, without staying up: the main job end to end in a real sandbox.
fn demonstration() -> anyhow::Result<()> {
    let directory = std::env::temp_dir().join(format!("sunaba-demonstration-{}", std::process::id()));
    let mut demo = Command::new("target/ci/sunaba");
    demo.args(["demo", "--exit", "--dir"]).arg(&directory);
    let result = stage::require("sunaba demo --exit", &mut demo);
    let removed = std::fs::remove_dir_all(&directory);
    result?;
    Ok(removed?)
}

fn summarise(reports: &[Report], left_out: &[String]) -> anyhow::Result<()> {
    say("\n== summary")?;
    let mut passed = 0;
    let mut failed = 0;
    for report in reports {
        let verdict = if report.ok { "ok" } else { "FAILED" };
        let counts = match report.counts {
            Counts { passed: 0, failed: 0 } => String::new(),
            counts => format!("{} passed, {} failed", counts.passed, counts.failed),
        };
        say(&format!("{:<16} {verdict:<7} {:>6.1} s  {counts}", report.name, report.took.as_secs_f64()))?;
        passed += report.counts.passed;
        failed += report.counts.failed;
    }
    if !left_out.is_empty() {
        say("\nleft out, and why:")?;
        for what in left_out {
            say(&format!("  {what}"))?;
        }
    }
    say(&format!("\n{passed} passed, {failed} failed"))?;
    if let Some(bad) = reports.iter().find(|report| !report.ok) {
        bail!("{} failed", bad.name);
    }
    if passed == 0 {
        bail!("no test was run");
    }
    Ok(())
}
