//! Start, end and removal of one sandbox.

use sunaba_sandbox::{Error, Provider as _, StartRequest, Status};
use sunaba_types::SandboxId;
use tokio::time::timeout;

use crate::support::{Host, PATIENCE, shell, until};

#[tokio::test]
async fn runs_a_command_with_its_environment_and_only_that() {
    let host = Host::new().await;
    let (exit, output) =
        host.run("echo $GREETING; id -u; pwd; hostname; env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!((exit.code, exit.signal, exit.error), (Some(0), None, None), "{output}");
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(&lines[..3], ["hello", "1000", "/workspace"], "{output}");
    assert!(lines[3].starts_with("sbx-"), "{output}");
    assert_eq!(lines[4].trim(), "GREETING HOME LANG PATH PWD USER", "nothing of the server's environment");
}

#[tokio::test]
async fn code_and_signal_are_told_apart() {
    let host = Host::new().await;
    let (exit, _) = host.run("exit 137").await;
    assert_eq!((exit.code, exit.signal), (Some(137), None));
    let (exit, _) = host.run("kill -9 $$").await;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    assert!(!exit.killed_on_request);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let host = Host::new().await;
    let id = SandboxId::generate();
    assert!(matches!(host.provider.start(&id, shell("true")).await, Err(Error::NotFound(_))));
    host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    assert!(matches!(host.provider.wait(&id).await, Err(Error::NotStarted(_))));
    let missing =
        sunaba_sandbox::Bind { source: "/does/not/exist".into(), target: "/x".into(), writable: false };
    let request = StartRequest { binds: vec![missing], ..shell("true") };
    let error = host.provider.start(&id, request).await.unwrap_err().to_string();
    assert!(error.contains("/does/not/exist"), "{error}");
    assert!(matches!(host.provider.status(&id).await.unwrap(), Status::Exited(_)));
}

#[tokio::test]
async fn a_command_that_is_not_there_ends_with_127() {
    let host = Host::new().await;
    let id = SandboxId::generate();
    host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    let request = StartRequest { command: vec!["/no/such/program".into()], ..StartRequest::default() };
    host.provider.start(&id, request).await.unwrap();
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    assert_eq!(exit.code, Some(127));
}

#[tokio::test]
async fn starting_twice_finds_the_same_sandbox() {
    let host = Host::new().await;
    let (id, _) = host.start("sleep 600").await;
    let first = host.provider.held(&id).await.unwrap().expect("it runs");
    host.provider.start(&id, shell("echo another")).await.unwrap();
    assert_eq!(Some(first), host.provider.held(&id).await.unwrap());
    host.provider.kill(&id).await.unwrap();
    assert!(matches!(host.provider.start(&id, shell("true")).await, Err(Error::AlreadyEnded(_))));
}

#[tokio::test]
async fn two_starts_at_once_give_one_sandbox() {
    let host = Host::new().await;
    let id = SandboxId::generate();
    host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    let (first, second) = tokio::join!(
        host.provider.start(&id, shell("echo once; sleep 600")),
        host.provider.start(&id, shell("echo once; sleep 600")),
    );
    first.unwrap();
    second.unwrap();
    let written = host.sandbox_dir(&id).join("out.log");
    until("the command has spoken", || {
        std::fs::read_to_string(&written).is_ok_and(|text| text.contains("once"))
    })
    .await;
    host.provider.kill(&id).await.unwrap();
    let output = host.provider.output(&id, 0, 100).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output).matches("once").count(), 1);
}

#[tokio::test]
async fn kill_leaves_no_process_and_is_told_from_an_end() {
    let host = Host::new().await;
    // A child that left its session and ignores what can be ignored.
    let (id, prepared) =
        host.start("(trap '' TERM HUP INT; setsid sleep 600 &) ; trap '' TERM; touch ready; while :; do sleep 1; done").await;
    until("the script has begun", || prepared.workspace.join("ready").exists()).await;
    let held = host.provider.held(&id).await.unwrap().expect("it runs");
    let alive = || sunaba_sandbox::process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid);
    assert!(alive().len() >= 4, "init, guest, bridge, shell, sleep: {:?}", alive());
    timeout(PATIENCE, host.provider.kill(&id)).await.unwrap().unwrap();
    assert_eq!(alive(), Vec::<i32>::new());
    let exit = host.provider.wait(&id).await.unwrap();
    assert!(exit.killed_on_request);
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    host.provider.kill(&id).await.expect("killing again is harmless");
}

#[tokio::test]
async fn a_command_that_leaves_children_behind_leaves_none_alive() {
    let host = Host::new().await;
    let (id, prepared) = host.start("setsid sleep 600 & echo done").await;
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    assert_eq!(exit.code, Some(0));
    let held: sunaba_sandbox::Held =
        serde_json::from_slice(&std::fs::read(host.sandbox_dir(&id).join("shim.json")).unwrap()).unwrap();
    let left = sunaba_sandbox::process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid);
    assert_eq!(left, Vec::<i32>::new());
}

#[tokio::test]
async fn terminate_lets_the_command_end_by_itself() {
    let host = Host::new().await;
    let (id, prepared) =
        host.start("trap 'echo saved; exit 3' TERM; touch ready; while :; do sleep 0.1; done").await;
    until("the trap is set", || prepared.workspace.join("ready").exists()).await;
    host.provider.terminate(&id).await.unwrap();
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    assert_eq!((exit.code, exit.killed_on_request), (Some(3), false));
    assert_eq!(host.provider.output(&id, 0, 100).await.unwrap(), b"saved\n");
    host.provider.terminate(&id).await.expect("asking what is over to end is harmless");
}

#[tokio::test]
async fn delete_keeps_only_the_output_and_list_forgets_it() {
    let host = Host::new().await;
    let (id, prepared) = host.start("echo kept; mkdir -p a/b; chmod 000 a; touch ready; sleep 600").await;
    until("the script has run", || prepared.workspace.join("ready").exists()).await;
    assert_eq!(host.provider.list().await.unwrap(), vec![id.clone()]);
    host.provider.delete(&id).await.unwrap();
    assert_eq!(host.provider.list().await.unwrap(), Vec::new());
    assert!(!host.sandbox_dir(&id).exists());
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Absent);
    assert_eq!(host.provider.output(&id, 0, 100).await.unwrap(), b"kept\n");
    assert_eq!(host.provider.output(&id, 2, 2).await.unwrap(), b"pt");
    host.provider.delete(&id).await.expect("deleting again is harmless");
}

#[tokio::test]
async fn a_token_in_the_environment_is_in_no_command_line() {
    let host = Host::new().await;
    let id = SandboxId::generate();
    host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    let mut request = shell("sleep 600");
    request.env.insert("SANDBOX_TOKEN".to_owned(), "very-secret-value".to_owned());
    assert!(!format!("{request:?}").contains("very-secret-value"));
    host.provider.start(&id, request).await.unwrap();
    let mut looked_at = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        looked_at += 1;
        assert!(!String::from_utf8_lossy(&line).contains("very-secret-value"), "{:?}", entry.path());
    }
    assert!(looked_at > 3);
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn killed_in_the_middle_of_its_start_it_leaves_nothing() {
    let host = Host::new().await;
    for pause_ms in 0..12 {
        let id = SandboxId::generate();
        let prepared = host
            .provider
            .create(&id, &sunaba_sandbox::CreateRequest::default())
            .await
            .unwrap()
            .here()
            .unwrap();
        let killing = async {
            tokio::time::sleep(std::time::Duration::from_millis(pause_ms * 3)).await;
            host.provider.kill(&id).await
        };
        let (started, killed) = tokio::join!(host.provider.start(&id, shell("sleep 600")), killing);
        killed.unwrap();
        // The kill may have come before there was anything to kill.
        if started.is_ok() {
            host.provider.kill(&id).await.unwrap();
        }
        host.provider.delete(&id).await.unwrap();
        let left = sunaba_sandbox::process::of_sandbox(None, prepared.owner_uid);
        assert_eq!(left, Vec::<i32>::new(), "after {pause_ms}");
    }
}
