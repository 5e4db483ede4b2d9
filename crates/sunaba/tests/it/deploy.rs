//! The files in `deploy/`: what they set is what the program knows, and what they promise is tried.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::geteuid;
use serde_json::Value;

use crate::daemon::left_out;
use crate::support::{Ran, Server, git, repository, sunaba, until};

pub(crate) fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).unwrap()
}

/// Every variable that the reference names.
pub(crate) fn known_variables() -> BTreeSet<String> {
    let data = tempfile::tempdir().unwrap();
    let reference = Ran::of(sunaba(data.path()).args(["config", "--reference"]));
    let lines = reference.stdout.lines().filter_map(|line| line.strip_prefix("- environment: "));
    let known: BTreeSet<String> =
        lines.flat_map(|names| names.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect();
    assert!(known.len() > 30, "{known:?}");
    known
}

/// The unit's settings, in the order they stand.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn read() -> Self {
        let text = read("sunaba.service");
        let lines =
            text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        Self(lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn all(&self, key: &'static str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(one, _)| one == key).map(|(_, value)| value.as_str())
    }

    fn get(&self, key: &'static str) -> &str {
        self.all(key).next().unwrap_or_else(|| panic!("the unit has no {key}="))
    }
}

#[test]
fn the_unit_ends_the_server_alone_and_gives_it_no_mounts_of_its_own() {
    let unit = Unit::read();
    assert_eq!(unit.get("KillMode"), "process");
    assert_eq!(unit.get("Delegate"), "yes");
    assert_eq!(unit.get("OOMPolicy"), "continue");
    assert_eq!(unit.get("RestartPreventExitStatus"), "2", "what a wrong setting ends with");
    let given: u64 = unit.get("TimeoutStopSec").parse().unwrap();
    assert!(given > 10, "longer than the server takes to finish what it has begun");
    // Each of these makes a mount namespace for the service, or takes what sandboxes are made of.
    for (key, _) in &unit.0 {
        let allowed = !key.starts_with("Protect")
            && !key.ends_with("Paths")
            && !["Private", "RestrictNamespaces", "RestrictSUIDSGID", "SystemCallFilter", "MemoryDeny"]
                .iter()
                .any(|refused| key.starts_with(refused));
        assert!(allowed, "{key}= would break sandboxes");
    }
    let known = known_variables();
    for word in unit.all("Environment").flat_map(str::split_whitespace) {
        let (name, _) = word.split_once('=').unwrap();
        assert!(known.contains(name), "the program does not know {name}");
    }
}

#[test]
fn systemd_understands_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return left_out("the systemd unit as systemd reads it", "systemd-analyze is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    // It looks whether the program is there.
    let text = read("sunaba.service").replace("/usr/local/bin/sunaba", env!("CARGO_BIN_EXE_sunaba"));
    std::fs::write(dir.path().join("sunaba.service"), text).unwrap();
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(dir.path().join("sunaba.service"))
        .output()
        .unwrap();
    // A key that it does not know is told, and is no failure for it. Other units of this host are not ours.
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("sunaba.service")).collect();
    assert!(ours.is_empty(), "{said}");
}

/// Started as the unit says: in a group of its own, without new privileges, without the capabilities it takes.
fn start_as_unit(data: &Path, listen: &str) -> (Child, String) {
    let unit = Unit::read();
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if unit.get("NoNewPrivileges") == "yes" {
        command.arg("--no-new-privs");
    }
    if geteuid().is_root() {
        let taken = unit.all("CapabilityBoundingSet").flat_map(|list| list[1..].split_whitespace());
        let taken: Vec<String> =
            taken.map(|name| format!("-{}", name.strip_prefix("CAP_").unwrap().to_lowercase())).collect();
        assert!(taken.len() > 10, "{taken:?}");
        command.arg(format!("--bounding-set={}", taken.join(",")));
    }
    let log = std::fs::File::options().create(true).append(true).open(data.join("test.log")).unwrap();
    command.arg("--").arg(env!("CARGO_BIN_EXE_sunaba")).args(["serve", "--json", "--listen", listen]);
    // Nobody follows up here.
    command.env("SUNABA_DATA", data).env("FOLLOW_UP_MINUTES", "0").process_group(0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
        panic!("{error}: {}", std::fs::read_to_string(data.join("test.log")).unwrap())
    });
    (child, announced["url"].as_str().unwrap().to_owned())
}

const SCRIPT: &str = "
- text: I count.
  tools:
    - shell: for i in $(seq 1 12); do echo tick $i; sleep 0.25; done
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

/// `KillMode=process`: SIGTERM to the main process and to nothing else. Kills at random moments are in the suite of
/// faults (`a_run_survives_kills_of_its_server`); this is an orderly restart with the unit's own hardening.
#[test]
fn a_restart_as_the_unit_does_it_disturbs_no_run() {
    let data = tempfile::tempdir().unwrap();
    let repo = repository(data.path());
    let script = data.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let (child, url) = start_as_unit(data.path(), "127.0.0.1:0");
    let mut server = Server { child, data, url };
    let mut run = sunaba(server.data.path());
    run.args(["run", "--detach", "--egress", "none", "--repo"]).arg(&repo);
    let ran = Ran::of(run.args(["--model", &format!("script:{}", script.display()), "Count"]));
    let id = ran.expect_code(0).stdout.trim().to_owned();
    until("its words", || server.run(&["logs", &id]).stdout.contains("tick 2"));

    let status = server.terminate();
    assert!(status.success(), "{status}: {}", server.log());
    let address = server.url.trim_start_matches("http://").to_owned();
    server.child = start_as_unit(server.data.path(), &address).0;
    let state = || server.json(&["show", &id])["sandbox"]["state"].clone();
    until("its end", || ["completed", "failed"].iter().any(|end| state() == *end));
    assert_eq!(state(), "completed", "{}", server.log());
    let story = server.run(&["logs", "--full", &id]).stdout;
    assert!((1..=12).all(|tick| story.matches(&format!("│ tick {tick}\n")).count() == 1), "{story}");
    let shown = server.json(&["show", &id]);
    assert_eq!(shown["sandbox"]["attempt"].as_u64(), Some(1), "the same attempt went on: {shown}");
    let branch = shown["sandbox"]["branch_name"].as_str().unwrap();
    assert_eq!(git(&repo, &["show", &format!("{branch}:a.txt")]), "a\n");
}
