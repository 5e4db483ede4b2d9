//! More processes in a running sandbox.

use std::time::Duration;

use sunaba_types::shim::Limits;
use tokio::time::timeout;

use super::{PATIENCE, World, create, exec, exec_in, idle, start};
use crate::{Error, ExecRequest};

/// It runs as the sandbox's user, where the command runs, and its outputs and end are told apart.
pub async fn runs_one_more_process(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    let script =
        "echo out; echo err >&2; echo $EXTRA; [ $(id -u) = $(stat -c %u ~) ] && echo own; pwd; exit 7";
    let mut request = exec(script);
    request.env.insert("EXTRA".to_owned(), "more".to_owned());
    let result = provider.exec(&id, request).await.unwrap();
    assert_eq!(
        (result.code, result.signal, result.timed_out, result.truncated),
        (Some(7), None, false, false)
    );
    assert_eq!(String::from_utf8_lossy(&result.stdout), "out\nmore\nown\n/workspace\n");
    assert_eq!(String::from_utf8_lossy(&result.stderr), "err\n");
    let result = exec_in(&*provider, &id, "kill -15 $$").await;
    assert_eq!((result.code, result.signal), (None, Some(15)));
    let missing = ExecRequest { command: vec!["/no/such/program".to_owned()], ..exec("") };
    assert_eq!(provider.exec(&id, missing).await.unwrap().code, Some(127));
    provider.delete(&id).await.unwrap();
}

/// Input arrives whole, also when it is more than a pipe holds and when nobody reads it.
pub async fn feeds_its_input(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    let input: Vec<u8> = (0..1_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let request = ExecRequest { input: input.clone(), output_max: 2_000_000, ..exec("cat") };
    let result = timeout(PATIENCE, provider.exec(&id, request)).await.expect("it ends").unwrap();
    assert!(result.stdout == input, "{} bytes came back", result.stdout.len());
    let request = ExecRequest { input, ..exec("echo unread") };
    let result = timeout(PATIENCE, provider.exec(&id, request)).await.expect("it ends").unwrap();
    assert_eq!((result.code, result.stdout), (Some(0), b"unread\n".to_vec()));
    assert_eq!(exec_in(&*provider, &id, "cat").await.stdout, b"", "without input there is an end of it");
    provider.delete(&id).await.unwrap();
}

/// When its time is over everything that it started goes with it, and nothing else does.
pub async fn kills_it_when_its_time_is_over(world: &impl World) {
    let provider = world.provider();
    let id = start(&*provider, Limits::default(), "sleep 7301").await;
    let script = "echo begun; setsid sleep 7302 & sleep 7303";
    let request = ExecRequest { timeout: Duration::from_secs(1), ..exec(script) };
    let result = timeout(PATIENCE, provider.exec(&id, request)).await.expect("it ends").unwrap();
    assert!(result.timed_out);
    assert_eq!(result.stdout, b"begun\n");
    let look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'slee[p] 730.' | sort -u";
    let left = exec_in(&*provider, &id, look).await;
    assert_eq!(String::from_utf8_lossy(&left.stdout), "sleep 7301\n");
    provider.delete(&id).await.unwrap();
}

/// More than was asked for is read and dropped.
pub async fn cuts_its_output(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    let request = ExecRequest { output_max: 1000, ..exec("head -c 3000000 /dev/zero; echo end >&2") };
    let result = timeout(PATIENCE, provider.exec(&id, request)).await.expect("it ends").unwrap();
    assert_eq!((result.code, result.stdout.len(), result.truncated), (Some(0), 1000, true));
    assert_eq!(result.stderr, b"end\n");
    provider.delete(&id).await.unwrap();
}

/// Before the start and after the end there is nowhere to run it.
pub async fn needs_a_running_sandbox(world: &impl World) {
    let provider = world.provider();
    let id = create(&*provider, Limits::default()).await;
    assert!(matches!(provider.exec(&id, exec("true")).await, Err(Error::NotStarted(_))));
    assert!(matches!(provider.usage(&id).await, Err(Error::NotStarted(_))));
    provider.start(&id, super::shell("true")).await.unwrap();
    super::end_of(&*provider, &id).await;
    assert!(matches!(provider.exec(&id, exec("true")).await, Err(Error::AlreadyEnded(_))));
    assert!(matches!(provider.usage(&id).await, Err(Error::AlreadyEnded(_))));
    provider.delete(&id).await.unwrap();
}

/// Several at once do not mix.
pub async fn runs_many_at_once(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    let all = (0..8).map(|n| {
        let (provider, id) = (world.provider(), id.clone());
        async move {
            let request = ExecRequest { input: format!("in{n}").into_bytes(), ..exec("cat; sleep 0.1; cat") };
            provider.exec(&id, request).await.unwrap().stdout
        }
    });
    let said = timeout(PATIENCE, futures::future::join_all(all)).await.expect("they end");
    for (n, one) in said.iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(one), format!("in{n}"));
    }
    provider.delete(&id).await.unwrap();
}
