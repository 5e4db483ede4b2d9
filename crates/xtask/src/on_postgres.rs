//! The suites that depend on the store once more, on PostgreSQL instead of SQLite.
//!
//! One throwaway server for all of them, as durable as a real one, because some kill the program under test
//! and compare what it acknowledged with what was kept. Left out: what the store has no part in (the walls of
//! sandboxes, containers, the worker). The programs are those that the first pass has built; cargo is only
//! asked where they are, for the whole workspace, because for a part of it it would build them anew.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::postgres::{PORT, Postgres};
use crate::stage::{self, Counts, Report, say};
use crate::test::cargo;

const NAME: &str = "on PostgreSQL";
/// Crate and test program; a library's is called as its crate.
const SUITES: [(&str, &str); 5] = [
    ("sunaba-server", "it"),
    ("sunaba-gateway", "it"),
    ("sunaba-orchestrator", "sunaba_orchestrator"),
    ("sunaba", "it"),
    ("sunaba", "faults"),
];

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: String,
    target: String,
    directory: PathBuf,
    executable: PathBuf,
}

/// What depends on no store, or says itself which stores it is about and was run in the first pass.
const SKIPPED: [&str; 8] =
    ["docker", "container", "cluster::", "two_nodes::", "postgres::", "backup::", "migrate::", "deploy"];

/// Runs the suites and counts their tests.
pub(crate) fn run(profile: &str) -> anyhow::Result<Report> {
    let started = Instant::now();
    say(&format!("\n== {NAME}"))?;
    let programs = built(profile)?;
    let server = Postgres::start();
    let mut report = Report { name: NAME, counts: Counts::default(), took: started.elapsed(), ok: true };
    for (package, target) in SUITES {
        let program = programs.iter().find(|one| one.package == package && one.target == target);
        let program = program.with_context(|| format!("no test program {target} of {package}"))?;
        let mut tests = Command::new(&program.executable);
        let skipped = SKIPPED.map(|name| ["--skip", name]);
        tests.current_dir(&program.directory).args(skipped.as_flattened());
        tests.env("SUNABA_TEST_STORE", "postgres").env(PORT, server.port().to_string());
        let ran = stage::run(package, &mut tests)?;
        report.counts.add(ran.counts);
        report.ok &= ran.ok;
    }
    report.took = started.elapsed();
    Ok(report)
}

/// Where the test programs of the workspace are.
fn built(profile: &str) -> anyhow::Result<Vec<Program>> {
    let mut asking = cargo(&["test", "--workspace", "--no-run", "--message-format=json", profile]);
    let answer = asking.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(answer.status.success(), "the test programs cannot be built");
    Ok(String::from_utf8_lossy(&answer.stdout).lines().filter_map(program).collect())
}

/// One line of what cargo says.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let executable = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let directory = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Program {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        directory,
        executable: executable.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_messages_name_the_test_programs() {
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/sunaba/Cargo.toml","target":{{"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = program(&line(r#""/w/target/it-1""#, true)).unwrap();
        let wanted = Program {
            package: "sunaba".into(),
            target: "it".into(),
            directory: "/w/crates/sunaba".into(),
            executable: "/w/target/it-1".into(),
        };
        assert_eq!(found, wanted);
        assert_eq!(program(&line("null", true)), None);
        assert_eq!(program(&line(r#""/w/target/sunaba""#, false)), None);
        assert_eq!(program("warning: words"), None);
    }
}
