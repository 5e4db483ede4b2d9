//! The worker where it belongs: in a sandbox, behind the bridge.

use std::collections::BTreeMap;

use sunaba_sandbox::{Provider as _, StartRequest, process};
use sunaba_types::SandboxId;
use sunaba_types::shim::{Bind, DOOR_SOCKET};
use tokio::time::timeout;

use crate::server::{Server, Turn};
use crate::support::{Host, PATIENCE, until};
use crate::work::{clone_into, environment, git};

/// What worker and bridge may take together, in KiB.
const PSS_MAX_KIB: u64 = 10 * 1024;

pub(crate) fn own_everything(path: &std::path::Path, uid: Option<u32>) {
    let Some(uid) = uid else { return };
    let output = std::process::Command::new("chown").arg("-R").arg(format!("{uid}:{uid}")).arg(path).status();
    assert!(output.unwrap().success());
}

pub(crate) fn request(origin: &std::path::Path) -> StartRequest {
    let env = environment("http://127.0.0.1:3129").into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut env: BTreeMap<_, _> = env.collect();
    for (name, value) in
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")]
    {
        env.insert(name.to_owned(), value.to_owned());
    }
    let bind =
        Bind { source: origin.to_str().unwrap().to_owned(), target: "/origin.git".into(), writable: true };
    StartRequest { env, binds: vec![bind], ..StartRequest::default() }
}

#[tokio::test]
async fn works_behind_the_bridge_and_stays_small() {
    let host = Host::new().await;
    let mut turns: Vec<_> = (0..250).map(|n| Turn::Bash(format!("echo line {n} >> log.txt"))).collect();
    turns.push(Turn::Bash("touch measure; until [ -e go ]; do sleep 0.05; done".to_owned()));
    turns.push(Turn::Say("done".to_owned()));
    let server = Server::new(turns);
    let id = SandboxId::generate();
    let prepared =
        host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    let origin = host.dir.path().join("origin.git");
    git(host.dir.path(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
    clone_into(&prepared.workspace, std::path::Path::new("/origin.git"));
    own_everything(&prepared.workspace, prepared.owner_uid);
    own_everything(&origin, prepared.owner_uid);
    server.listen_at(&prepared.door_dir.join(DOOR_SOCKET));
    host.provider.start(&id, request(&origin)).await.unwrap();

    until("the agent is at its last command", || prepared.workspace.join("measure").exists()).await;
    until("a thousand events are sent", || server.state().events.len() >= 1000).await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let sizes: Vec<_> = process::of_sandbox(Some(held.pid_namespace), None)
        .into_iter()
        .filter_map(|pid| Some((part(pid)?, pss_kib(pid))))
        .collect();
    let total: u64 =
        sizes.iter().filter(|(part, _)| part == "work" || part == "bridge").map(|(_, kib)| kib).sum();
    println!("proportional set sizes in KiB: {sizes:?}");
    assert!(sizes.len() >= 3, "guest, bridge and worker: {sizes:?}");
    assert!(total <= PSS_MAX_KIB, "{sizes:?}");

    std::fs::write(prepared.workspace.join("go"), "").unwrap();
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    let output = host.provider.output(&id, 0, 1 << 16).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}", String::from_utf8_lossy(&output));
    assert_eq!(server.only("agent.completed")["code_pushed"], true);
    assert!(origin.join("refs/heads").join(crate::work::BRANCH).exists());
    host.provider.delete(&id).await.unwrap();
}

/// Which part of the program a process is.
fn part(pid: i32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split('\0');
    words.next()?.ends_with("sunaba-worker").then(|| words.next().unwrap_or_default().to_owned())
}

fn pss_kib(pid: i32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_that_comes_late_and_goes_away_is_not_noticed_inside() {
    let host = Host::new().await;
    let server = Server::new(vec![
        Turn::Bash("touch running; until [ -e go ]; do sleep 0.05; done".to_owned()),
        Turn::Say("done".to_owned()),
    ]);
    let id = SandboxId::generate();
    let prepared =
        host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    let origin = host.dir.path().join("origin.git");
    git(host.dir.path(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
    clone_into(&prepared.workspace, std::path::Path::new("/origin.git"));
    own_everything(&prepared.workspace, prepared.owner_uid);
    own_everything(&origin, prepared.owner_uid);
    host.provider.start(&id, request(&origin)).await.unwrap();
    let door = prepared.door_dir.join(DOOR_SOCKET);
    // The server appears only now, and its socket is made anew in the middle.
    server.listen_at(&door);
    until("the agent works", || prepared.workspace.join("running").exists()).await;
    std::fs::remove_file(&door).unwrap();
    server.listen_at(&door);
    // The bridge too is killed, and started again by the guest.
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let bridge = process::of_sandbox(Some(held.pid_namespace), None)
        .into_iter()
        .find(|pid| part(*pid).as_deref() == Some("bridge"))
        .unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(bridge), nix::sys::signal::Signal::SIGKILL).unwrap();
    std::fs::write(prepared.workspace.join("go"), "").unwrap();
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    let output = host.provider.output(&id, 0, 1 << 16).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}", String::from_utf8_lossy(&output));
    assert_eq!(server.types().last().map(String::as_str), Some("agent.shutdown"));
    host.provider.delete(&id).await.unwrap();
}
