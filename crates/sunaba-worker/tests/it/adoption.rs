//! A sandbox outlives the server that started it, and not the shim that holds it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sunaba_sandbox::{Error, Provider as _, Status, process};
use tokio::time::timeout;

use crate::support::{Host, PATIENCE, provider_in, until};

#[tokio::test]
async fn another_server_adopts_what_runs() {
    let host = Host::new().await;
    let (id, prepared) = host.start("until [ -e go ]; do sleep 0.05; done; exit 5").await;
    let next = provider_in(host.dir.path());
    assert_eq!(next.status(&id).await.unwrap(), Status::Running);
    assert_eq!(
        next.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap(),
        prepared,
        "asked again: the same places and the same user"
    );
    let waiting = next.wait(&id);
    std::fs::write(prepared.workspace.join("go"), "").unwrap();
    let exit = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(exit.code, Some(5));
    let last = provider_in(host.dir.path());
    assert_eq!(last.status(&id).await.unwrap(), Status::Exited(exit.clone()));
    assert_eq!(last.wait(&id).await.unwrap(), exit);
}

#[tokio::test]
async fn another_server_kills_what_runs() {
    let host = Host::new().await;
    let (id, prepared) = host.start("sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let next = provider_in(host.dir.path());
    next.kill(&id).await.unwrap();
    assert_eq!(process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid), Vec::<i32>::new());
    assert!(matches!(host.provider.status(&id).await.unwrap(), Status::Exited(_)));
}

#[tokio::test]
async fn nothing_outlives_the_shim() {
    let host = Host::new().await;
    let (id, prepared) = host.start("setsid sleep 600 & sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let alive = || process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid);
    assert!(!alive().is_empty());
    kill(Pid::from_raw(held.shim_pid), Signal::SIGKILL).unwrap();
    until("every process is gone", || alive().is_empty()).await;
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Lost);
    assert!(matches!(host.provider.wait(&id).await, Err(Error::Lost(_))));
    assert!(matches!(host.provider.start(&id, crate::support::shell("true")).await, Err(Error::Lost(_))));
    host.provider.delete(&id).await.unwrap();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Absent);
}

#[tokio::test]
async fn a_stopped_shim_is_ended_all_the_same() {
    let host = Host::new().await;
    let (id, prepared) = host.start("sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    kill(Pid::from_raw(held.shim_pid), Signal::SIGSTOP).unwrap();
    timeout(PATIENCE, host.provider.kill(&id)).await.unwrap().unwrap();
    assert_eq!(process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid), Vec::<i32>::new());
}

#[tokio::test]
async fn the_shim_is_in_a_session_of_its_own() {
    let host = Host::new().await;
    let (id, _) = host.start("sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let session = nix::unistd::getsid(Some(Pid::from_raw(held.shim_pid))).unwrap();
    assert_eq!(session.as_raw(), held.shim_pid);
    let environment = std::fs::read(format!("/proc/{}/environ", held.shim_pid)).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("HOME="), "nothing of the server's environment");
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn the_shim_answers_many_and_refuses_nonsense() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let host = Host::new().await;
    let (id, prepared) = host.start("until [ -e go ]; do sleep 0.05; done; exit 7").await;
    let socket = host.sandbox_dir(&id).join("control.sock");
    for nonsense in [b"{\"do\":\"dance\"}\n".to_vec(), vec![b'x'; 100_000]] {
        let mut stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        // The rest of an endless line is not read: writing it all may fail.
        let _ = stream.write_all(&nonsense).await;
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer or the end");
        assert!(answer.contains("refused") || read.is_err(), "{answer}");
    }
    let go = async { std::fs::write(prepared.workspace.join("go"), "").unwrap() };
    let wait = || timeout(PATIENCE, host.provider.wait(&id));
    // In this order: all wait before the sandbox may end.
    let (one, two, three, ()) = tokio::join!(wait(), wait(), wait(), go);
    for exit in [one, two, three] {
        assert_eq!(exit.unwrap().unwrap().code, Some(7));
    }
}

#[tokio::test]
async fn an_ended_shim_is_no_zombie() {
    let host = Host::new().await;
    let (id, _) = host.start("sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    host.provider.kill(&id).await.unwrap();
    let entry = std::path::PathBuf::from(format!("/proc/{}", held.shim_pid));
    until("the shim is gone from the process table", || !entry.exists()).await;
}
