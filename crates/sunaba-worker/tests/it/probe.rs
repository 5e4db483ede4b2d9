//! What the doctor says, also where something was taken away.

use std::path::{Path, PathBuf};
use std::process::Command;

use sunaba_sandbox::probe::{Host as View, findings, walls};
use sunaba_types::{Finding, FindingStatus};

use crate::support::{is_root, provider_in};

/// Set in the copy of this program that looks around in a place with less.
const HERE: &str = "SUNABA_TEST_PROBE";
const MARK: &str = "FINDINGS:";

fn named<'a>(all: &'a [Finding], name: &str) -> &'a Finding {
    all.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

async fn look(view: &View) -> Vec<Finding> {
    let data = tempfile::tempdir().unwrap();
    let unusable = walls(view, is_root()).await.err();
    findings(view, data.path(), unusable.as_ref()).await
}

/// Looks at this host. Started again by the tests below, it says what it found.
#[tokio::test]
async fn a_whole_host_is_found_whole() {
    let found = look(&View::default()).await;
    if std::env::var_os(HERE).is_some() {
        println!("{MARK}{}", serde_json::to_string(&found).unwrap());
        return;
    }
    for name in ["local sandboxes", "bubblewrap", "user namespaces", "seccomp", "git"] {
        assert_eq!(named(&found, name).status, FindingStatus::Ok, "{found:?}");
    }
    for finding in &found {
        let mends = matches!(finding.status, FindingStatus::Weaker | FindingStatus::Missing);
        assert_eq!(finding.remedy.is_some(), mends, "{finding:?}");
    }
}

/// The findings of a copy of this program that a shell started in another place.
fn look_in(unshared: &[&str], before: &str) -> Vec<Finding> {
    let own = std::env::current_exe().unwrap();
    let script =
        format!("{before} exec {} --exact probe::a_whole_host_is_found_whole --nocapture", own.display());
    let mut command = Command::new("unshare");
    command.args(unshared).args(["--", "/bin/sh", "-c", &script]).env(HERE, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said
        .lines()
        .find_map(|line| line.split_once(MARK))
        .unwrap_or_else(|| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(line.1).unwrap()
}

#[tokio::test]
async fn without_groups_limits_are_sampled_and_the_doctor_says_so() {
    if !is_root() {
        println!("left out: only root can cover /sys/fs/cgroup");
        return;
    }
    let found = look_in(&["--mount"], "mount -t tmpfs none /sys/fs/cgroup &&");
    for name in ["cgroup memory", "cgroup cpu", "cgroup pids", "cgroup kill"] {
        let finding = named(&found, name);
        assert_eq!(finding.status, FindingStatus::Weaker, "{finding:?}");
        assert!(finding.remedy.as_ref().is_some_and(|remedy| remedy.contains("mount")), "{finding:?}");
    }
    assert_eq!(
        named(&found, "local sandboxes").status,
        FindingStatus::Ok,
        "sandboxes can be made all the same"
    );
}

#[tokio::test]
async fn without_user_namespaces_no_sandbox_is_promised() {
    // Only a namespace of its own is changed: in it nobody can make another.
    let found = look_in(&["--user", "--map-root-user"], "echo 0 > /proc/sys/user/max_user_namespaces &&");
    let finding = named(&found, "user namespaces");
    assert_eq!(finding.status, FindingStatus::Missing, "{found:?}");
    assert!(finding.remedy.as_ref().is_some_and(|remedy| remedy.contains("max_user_namespaces")));
    assert_eq!(named(&found, "local sandboxes").status, FindingStatus::Missing);
}

fn view_with(programs: &Path) -> View {
    View {
        programs: vec![programs.to_owned(), PathBuf::from("/usr/bin"), PathBuf::from("/bin")],
        ..View::default()
    }
}

#[tokio::test]
async fn a_bubblewrap_that_fails_is_named_with_its_words() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("bwrap");
    std::fs::write(&path, "#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 0.4.1 && exit\necho 'no permission to make one' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = look(&view_with(dir.path())).await;
    let finding = named(&found, "local sandboxes");
    assert_eq!(finding.status, FindingStatus::Missing);
    assert!(finding.detail.contains("no permission to make one"), "{finding:?}");
    assert_eq!(named(&found, "bubblewrap").status, FindingStatus::Weaker, "too old");
}

#[tokio::test]
async fn programs_and_kernel_settings_that_are_missing_are_named() {
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(empty.path().join("sys/kernel")).unwrap();
    std::fs::write(empty.path().join("sys/kernel/apparmor_restrict_unprivileged_userns"), "1\n").unwrap();
    let view = View {
        proc: empty.path().to_owned(),
        sys: empty.path().to_owned(),
        dev: empty.path().to_owned(),
        programs: vec![empty.path().to_owned()],
    };
    let found = look(&view).await;
    for name in ["bubblewrap", "git", "seccomp", "local sandboxes"] {
        assert_eq!(named(&found, name).status, FindingStatus::Missing, "{name}");
    }
    let restricted = named(&found, "AppArmor restriction");
    assert_eq!(restricted.status, FindingStatus::Weaker);
    assert!(restricted.remedy.as_ref().is_some_and(|remedy| remedy.contains("sysctl")));
    assert_eq!(named(&found, "loop disks").status, FindingStatus::Weaker);
}

#[tokio::test]
async fn a_report_names_each_thing_once() {
    use sunaba_sandbox::Provider as _;
    let dir = tempfile::tempdir().unwrap();
    let report = provider_in(dir.path()).report().await;
    let mut names: Vec<_> = report.findings.iter().map(|finding| finding.name.clone()).collect();
    assert!(names.len() >= 13, "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), report.findings.len());
}
