//! What a sandbox cannot reach. Each attempt is also made outside, where it succeeds: otherwise
//! its failure inside would prove nothing.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use sunaba_sandbox::{Provider as _, Status, process};

use crate::support::{Host, is_root, until};

/// Makes the same attempt outside and inside.
async fn only_outside(host: &Host, attempt: &str) {
    let outside = Command::new("/bin/bash").args(["-c", attempt]).output().unwrap();
    assert!(
        outside.status.success(),
        "must succeed outside: {attempt}\n{}",
        String::from_utf8_lossy(&outside.stderr)
    );
    let (exit, output) = host.run(&format!("/bin/bash -c {}", quote(attempt))).await;
    assert_eq!(exit.error, None, "the attempt must have been made");
    assert!(matches!(exit.code, Some(1..)), "must fail inside: {attempt}\n{exit:?} {output}");
}

fn quote(script: &str) -> String {
    format!("'{}'", script.replace('\'', "'\\''"))
}

#[tokio::test]
async fn host_files_are_out_of_reach() {
    let host = Host::new().await;
    let canary = host.dir.path().join("canary");
    std::fs::write(&canary, "host").unwrap();
    let in_tmp = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    for path in [canary.as_path(), in_tmp.path()] {
        only_outside(&host, &format!("cat {}", path.display())).await;
        only_outside(&host, &format!("test -e {0} && echo x >> {0}", path.display())).await;
    }
    assert_eq!(std::fs::read_to_string(&canary).unwrap(), "hostx\n", "written once: outside");
    let home = std::env::var("HOME").unwrap();
    let in_home = tempfile::NamedTempFile::new_in(home).unwrap();
    only_outside(&host, &format!("cat {}", in_home.path().display())).await;
}

#[tokio::test]
async fn the_hosts_etc_is_out_of_reach() {
    let host = Host::new().await;
    only_outside(&host, "test -e /etc/shadow").await;
    if is_root() {
        only_outside(&host, "cat /etc/shadow").await;
    }
    only_outside(&host, "grep -q ^daemon: /etc/passwd").await;
    let (exit, output) = host.run("cat /etc/passwd; touch /etc/x").await;
    assert!(output.contains("agent:x:1000"), "{output}");
    assert_ne!(exit.code, Some(0), "/etc is read-only");
    let (exit, output) = host.run("touch /usr/x").await;
    assert_ne!(exit.code, Some(0), "/usr is read-only: {output}");
}

#[tokio::test]
async fn host_processes_are_out_of_reach() {
    let host = Host::new().await;
    let mut victim = Command::new("/bin/sleep").arg("600").spawn().unwrap();
    let pid = victim.id();
    only_outside(&host, &format!("kill -0 {pid}")).await;
    only_outside(&host, &format!("test -d /proc/{pid}")).await;
    let (_, output) = host.run("ls /proc | grep -c '^[0-9]'").await;
    let seen: usize = output.trim().parse().unwrap();
    assert!(seen < 12, "only its own processes: {seen}");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[tokio::test]
async fn host_loopback_is_out_of_reach() {
    let host = Host::new().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    only_outside(&host, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).await;
}

#[tokio::test]
async fn there_is_no_network() {
    let host = Host::new().await;
    only_outside(&host, "grep -q ':' <(tail -n +3 /proc/net/dev | grep -v 'lo:')").await;
    let (exit, output) = host.run("cat /proc/net/route; exec 3<>/dev/tcp/192.0.2.1/80").await;
    assert_ne!(exit.code, Some(0));
    assert_eq!(output.lines().filter(|line| line.starts_with("eth")).count(), 0);
    let (_, output) = host.run("/bin/bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'").await;
    assert!(output.contains("unreachable"), "there is no way there at all: {output}");
}

#[tokio::test]
async fn another_sandbox_is_out_of_reach() {
    let host = Host::new().await;
    let (id, prepared) = host.start("echo private > file; sleep 600").await;
    let file = prepared.workspace.join("file");
    until("the file is there", || file.exists()).await;
    only_outside(&host, &format!("cat {}", file.display())).await;
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn no_privilege_is_left_or_gained() {
    let host = Host::new().await;
    let (_, output) = host.run("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status").await;
    for line in output.lines() {
        let value = line.split_whitespace().last().unwrap();
        let expected = if line.starts_with("NoNewPrivs") { "1" } else { "0000000000000000" };
        assert_eq!(value, expected, "{output}");
    }
    assert_eq!(output.lines().count(), 4, "{output}");
    let (exit, _) = host.run("mount -t tmpfs none /mnt || mount -t tmpfs none /tmp").await;
    assert_ne!(exit.code, Some(0));
}

#[tokio::test]
async fn seen_from_the_host_nothing_is_root() {
    let host = Host::new().await;
    let script = "echo x > made; mkdir dir; echo y > dir/deep; echo z > $HOME/own; touch ready; sleep 600";
    let (id, prepared) = host.start(script).await;
    until("the files are made", || prepared.workspace.join("ready").exists()).await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let expected = prepared.owner_uid.unwrap_or(nix::unistd::geteuid().as_raw());
    assert_eq!(prepared.owner_uid.is_some(), is_root());
    if is_root() {
        assert!(sunaba_sandbox::UID_RANGE.contains(&expected));
    }
    let pids = process::of_sandbox(Some(held.pid_namespace), None);
    assert!(pids.len() >= 4, "init, guest, bridge and the command: {pids:?}");
    for pid in pids {
        assert_eq!(process::real_uid(pid), Some(expected), "process {pid}");
    }
    let home = prepared.workspace.with_file_name("home");
    let made = ["made", "dir", "dir/deep", "ready"].map(|name| prepared.workspace.join(name));
    for path in made.iter().chain([&home.join("own")]) {
        let owner = std::fs::symlink_metadata(path).unwrap();
        assert_eq!((owner.uid(), path), (expected, path));
    }
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn a_bound_toolchain_can_be_read_and_not_changed() {
    let host = Host::new().await;
    let tool = host.dir.path().join("toolchain");
    std::fs::create_dir(&tool).unwrap();
    std::fs::write(tool.join("hello"), "#!/bin/sh\necho from the tool\n").unwrap();
    for path in [&tool, &tool.join("hello")] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let bind = |writable| sunaba_sandbox::Bind {
        source: tool.to_str().unwrap().to_owned(),
        target: "/opt/tool".to_owned(),
        writable,
    };
    let script = "/opt/tool/hello && echo x > /opt/tool/new";
    for (writable, expected) in [(false, false), (true, true)] {
        let id = sunaba_types::SandboxId::generate();
        host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
        let request =
            sunaba_sandbox::StartRequest { binds: vec![bind(writable)], ..crate::support::shell(script) };
        host.provider.start(&id, request).await.unwrap();
        let exit = host.provider.wait(&id).await.unwrap();
        let output = host.provider.output(&id, 0, 1000).await.unwrap();
        assert!(output.starts_with(b"from the tool\n"), "{}", String::from_utf8_lossy(&output));
        assert_eq!(exit.code == Some(0), expected, "{}", String::from_utf8_lossy(&output));
        host.provider.delete(&id).await.unwrap();
    }
}

#[tokio::test]
async fn two_data_directories_never_share_a_user() {
    let (one, other) = (Host::new().await, Host::new().await);
    let (first, kept) = one.start("sleep 600").await;
    let (second, killed) = other.start("sleep 600").await;
    assert!(!is_root() || kept.owner_uid != killed.owner_uid, "{kept:?} {killed:?}");
    other.provider.delete(&second).await.unwrap();
    assert!(matches!(one.provider.status(&first).await.unwrap(), Status::Running));
    one.provider.delete(&first).await.unwrap();
}

#[tokio::test]
async fn the_sandbox_cannot_change_its_door() {
    let host = Host::new().await;
    let (exit, _) = host.run("touch /run/sunaba/x").await;
    assert_ne!(exit.code, Some(0));
    let (exit, _) = host.run("echo > /opt/sunaba/sunaba-worker").await;
    assert_ne!(exit.code, Some(0));
}
