//! `.sunaba.yaml` and what is prepared once for many sandboxes. Needs what `end_to_end` needs.

use std::path::Path;

use serde_json::Value;

use crate::end_to_end::{Background, data_dir};
use crate::support::{Ran, git, repository, sunaba, until};

const LOOK: &str = "
- tools:
    - shell: cat deps/made ~/.cache/made; cat .sunaba.yaml | head -1; ls
- expect:
    - contains: made in the workspace
    - contains: made at home
  tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

const PLAIN: &str = "
- tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

fn commit_file(repo: &Path, name: &str, text: &str) {
    std::fs::write(repo.join(name), text).unwrap();
    git(repo, &["add", "."]);
    git(repo, &["-c", "user.name=t", "-c", "user.email=t@sunaba.invalid", "commit", "--quiet", "-m", name]);
}

fn run(data: &Path, repo: &Path, script: &str) -> Ran {
    let file = data.join("script.yaml");
    std::fs::write(&file, script).unwrap();
    Ran::of(sunaba(data).args(["run", "--memory", "0.5", "--disk", "0.3", "--repo"]).arg(repo).args([
        "--model",
        &format!("script:{}", file.display()),
        "Look",
    ]))
}

/// The events of the newest sandbox of one type.
fn events(data: &Path, event_type: &str) -> Vec<Value> {
    let ran = Ran::of(sunaba(data).args(["logs", "last", "--json"]));
    let all = ran.expect_code(0).stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event_type"] == event_type).map(|event| event["event_data"].clone()).collect()
}

fn statuses(data: &Path) -> Vec<String> {
    events(data, "sandbox.setup").iter().map(|event| event["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_setup_runs_once_and_is_laid_under_every_later_sandbox() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    let setup = "setup: mkdir -p deps ~/.cache && echo made in the workspace > deps/made && echo made at home > ~/.cache/made\n";
    commit_file(&repo, ".sunaba.yaml", &format!("{setup}setpu: x\n"));

    let first = run(data.path(), &repo, LOOK);
    first.expect_code(0);
    assert_eq!(statuses(data.path()), ["started", "done"]);
    assert!(first.stdout.contains("⚠ .sunaba.yaml: line 2: \"setpu\" is not known"), "{}", first.stdout);
    let branch = first.stdout.lines().find_map(|line| line.strip_prefix("branch  ")).unwrap();
    let tree = git(&repo, &["ls-tree", "-r", "--name-only", branch]);
    assert_eq!(tree, ".sunaba.yaml\nREADME.md\na.txt\n", "what was set up is nothing to commit");

    run(data.path(), &repo, LOOK).expect_code(0);
    assert_eq!(statuses(data.path()), ["reused"]);
    until("the end of everything that was made for it", || {
        let left = std::fs::read_dir(data.path().join("sandboxes")).unwrap().flatten();
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("sbx")).count() == 0
    });
}

#[test]
fn a_setup_that_fails_is_told_loudly_and_the_agent_works_all_the_same() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    commit_file(&repo, ".sunaba.yaml", "setup: echo no such luck; exit 3\n");
    let ran = run(data.path(), &repo, PLAIN);
    ran.expect_code(0);
    let told = events(data.path(), "sandbox.setup");
    let failed = told.last().unwrap();
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["exit"]["code"], 3, "{failed}");
    assert!(failed["output"].as_str().unwrap().contains("no such luck"), "{failed}");
    assert!(ran.stdout.contains("⚙ setup failed") && ran.stdout.contains("│ no such luck"), "{}", ran.stdout);
}

#[test]
fn a_malformed_file_fails_the_run_with_its_line() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    commit_file(&repo, ".sunaba.yaml", "check: make test\negress: everything\n");
    let ran = run(data.path(), &repo, PLAIN);
    ran.expect_code(1);
    assert!(ran.stdout.contains(".sunaba.yaml:2: egress: the preset must be"), "{}", ran.stdout);
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let data = data_dir();
    let _background = Background(data.path());
    let repo = repository(data.path());
    let script = data.path().join("script.yaml");
    std::fs::write(&script, "- tools:\n    - shell: sleep 60\n- text: never\n").unwrap();
    let ran = Ran::of(
        sunaba(data.path())
            .args(["run", "--timeout", "2s", "--memory", "0.5", "--disk", "0.3", "--repo"])
            .arg(&repo)
            .args(["--model", &format!("script:{}", script.display()), "Sleep"]),
    );
    ran.expect_code(1);
    assert!(ran.stdout.contains("its time is over"), "{}", ran.stdout);
    assert_eq!(events(data.path(), "sandbox.timeout")[0]["timeout_seconds"], 2);
    let show = Ran::of(sunaba(data.path()).args(["show", "last", "--json"]));
    let shown: Value = serde_json::from_str(&show.expect_code(0).stdout).unwrap();
    assert_eq!(shown["sandbox"]["state"], "failed", "{shown}");
    assert!(shown["sandbox"]["exit"].is_object(), "how it ended is on record: {shown}");
}
