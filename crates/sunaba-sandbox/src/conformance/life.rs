//! From creation to deletion.

use sunaba_types::SandboxId;
use sunaba_types::shim::{Limits, WORKSPACE_INSIDE};

use super::{World, create, end_of, exec_in, hear, idle, is_running, run, said, shell, start};
use crate::{CreateRequest, Error, StartRequest, Status};

/// Asked again for the same id it gives the same places.
pub async fn creates_once(world: &impl World) {
    let provider = world.provider();
    let id = SandboxId::generate();
    let request = CreateRequest::default();
    let first = provider.create(&id, &request).await.unwrap();
    assert_eq!(provider.create(&id, &request).await.unwrap(), first);
    assert_eq!(provider.status(&id).await.unwrap(), Status::Prepared);
    assert_eq!(provider.list().await.unwrap(), vec![id.clone()]);
    provider.delete(&id).await.unwrap();
    assert_eq!(provider.find(&id).await.unwrap(), None);
}

/// A server that was started anew finds the same places.
pub async fn is_found_by_the_next_server(world: &impl World) {
    let provider = world.provider();
    let id = SandboxId::generate();
    let places = provider.create(&id, &CreateRequest::default()).await.unwrap();
    let next = world.fresh_provider();
    assert_eq!(next.find(&id).await.unwrap(), Some(places));
    assert_eq!(next.find(&SandboxId::generate()).await.unwrap(), None);
    assert_eq!(next.list().await.unwrap(), vec![id.clone()]);
    next.delete(&id).await.unwrap();
}

/// A second start finds the first.
pub async fn starts_once(world: &impl World) {
    let provider = world.provider();
    let id = start(&*provider, Limits::default(), "echo first; sleep 600").await;
    hear(&*provider, &id, "first").await;
    provider.start(&id, shell("echo second; sleep 600")).await.unwrap();
    assert!(is_running(&provider.status(&id).await.unwrap()));
    assert!(!said(&*provider, &id).await.contains("second"));
    provider.delete(&id).await.unwrap();
}

/// What is not there is said to be not there.
pub async fn says_what_is_unknown(world: &impl World) {
    let provider = world.provider();
    let id = SandboxId::generate();
    assert_eq!(provider.status(&id).await.unwrap(), Status::Absent);
    assert!(matches!(provider.start(&id, shell("true")).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.wait(&id).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.exec(&id, super::exec("true")).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.usage(&id).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.read_file(&id, "/workspace/x", 1).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.write_file(&id, "/workspace/x", b"", 0o644).await, Err(Error::NotFound(_))));
    assert!(matches!(provider.kill(&id).await, Err(Error::NotFound(_))));
    provider.delete(&id).await.expect("deleting what is not there is harmless");
    let id = create(&*provider, Limits::default()).await;
    assert!(matches!(provider.wait(&id).await, Err(Error::NotStarted(_))));
    provider.delete(&id).await.unwrap();
}

/// Output is there while the sandbox runs, from any place on.
pub async fn streams_output_by_offset(world: &impl World) {
    let provider = world.provider();
    let script = "echo one; until [ -e /workspace/go ]; do sleep 0.05; done; echo two; echo three >&2";
    let id = start(&*provider, Limits::default(), script).await;
    hear(&*provider, &id, "one").await;
    assert_eq!(provider.output(&id, 0, 100).await.unwrap(), b"one\n");
    assert_eq!(provider.output(&id, 1, 1).await.unwrap(), b"n");
    assert_eq!(provider.output(&id, 4, 100).await.unwrap(), b"", "nothing more was said");
    provider.write_file(&id, "/workspace/go", b"", 0o644).await.unwrap();
    end_of(&*provider, &id).await;
    // No order is promised between the two streams: a container's are two pipes.
    let rest = String::from_utf8(provider.output(&id, 4, 100).await.unwrap()).unwrap();
    let mut lines: Vec<&str> = rest.split_inclusive('\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, ["three\n", "two\n"]);
    assert_eq!(provider.output(&id, 100, 100).await.unwrap(), b"", "past the end");
    provider.delete(&id).await.unwrap();
    assert_eq!(provider.output(&id, 0, 3).await.unwrap(), b"one", "output outlives the sandbox");
}

/// Variables are passed on as they are, and none of the server's.
pub async fn passes_the_environment_and_only_that(world: &impl World) {
    let provider = world.provider();
    let id = create(&*provider, Limits::default()).await;
    let mut request = shell("printf '<%s>' \"$TRICKY\"; env | cut -d= -f1 | sort");
    let tricky = "a b'c\"d$e\\f ü=";
    request.env.insert("TRICKY".to_owned(), tricky.to_owned());
    provider.start(&id, request).await.unwrap();
    assert_eq!(end_of(&*provider, &id).await.code, Some(0));
    let said = said(&*provider, &id).await;
    assert!(said.starts_with(&format!("<{tricky}>")), "{said}");
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO") || name.starts_with("RUST"))
    {
        assert!(!said.lines().any(|line| line == name), "{name} is the server's: {said}");
    }
    provider.delete(&id).await.unwrap();
}

/// What runs goes on with another server, which can do everything with it.
pub async fn is_adopted_by_the_next_server(world: &impl World) {
    let provider = world.provider();
    let id = start(&*provider, Limits::default(), "until [ -e go ]; do sleep 0.05; done; exit 5").await;
    drop(provider);
    let next = world.fresh_provider();
    assert!(is_running(&next.status(&id).await.unwrap()));
    assert_eq!(exec_in(&*next, &id, "echo here").await.stdout, b"here\n");
    next.usage(&id).await.unwrap();
    next.write_file(&id, "/workspace/go", b"", 0o644).await.unwrap();
    assert_eq!(end_of(&*next, &id).await.code, Some(5));
    let last = world.fresh_provider();
    assert_eq!(end_of(&*last, &id).await.code, Some(5), "the end is remembered");
    last.delete(&id).await.unwrap();
}

/// Deletion ends what runs and can be repeated.
pub async fn deletes_for_good(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    provider.write_file(&id, "/workspace/a/b/c", b"x", 0o600).await.unwrap();
    provider.delete(&id).await.unwrap();
    assert_eq!(provider.status(&id).await.unwrap(), Status::Absent);
    assert_eq!(provider.list().await.unwrap(), []);
    provider.delete(&id).await.unwrap();
    assert!(matches!(provider.start(&id, shell("true")).await, Err(Error::NotFound(_))));
}

/// Neither files nor processes of one are seen by another.
pub async fn keeps_sandboxes_apart(world: &impl World) {
    let provider = world.provider();
    let one = idle(&*provider).await;
    let script = "echo secret > /workspace/marker-7261; echo x > /tmp/marker-7261; sleep 72615";
    let other = start(&*provider, Limits::default(), script).await;
    let look = "find /workspace /tmp /home /run /var/tmp -name 'marker-726[1]' 2>/dev/null; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 7261[5]'";
    let ready = "until [ -e /tmp/marker-7261 ]; do sleep 0.05; done";
    let own = exec_in(&*provider, &other, &format!("{ready}; {look}")).await;
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    assert!(own.contains("marker-7261") && own.contains("sleep 72615"), "it sees itself: {own}");
    let seen = exec_in(&*provider, &one, look).await;
    assert_eq!(String::from_utf8_lossy(&seen.stdout), "");
    for id in [one, other] {
        provider.delete(&id).await.unwrap();
    }
}

/// Trees laid under a directory are seen through it and never changed.
pub async fn lays_layers_under(world: &impl World) {
    let Some(layer) = world.layer(WORKSPACE_INSIDE) else {
        eprintln!("left out: this provider takes no layers");
        return;
    };
    let provider = world.provider();
    let mut changed = Vec::new();
    for _ in 0..2 {
        let id = create(&*provider, Limits::default()).await;
        let script =
            "cat from-below; echo changed > from-below; echo new > own; cat from-below own; sleep 600";
        let request = StartRequest { layers: vec![layer.clone()], ..shell(script) };
        provider.start(&id, request).await.unwrap();
        hear(&*provider, &id, "new").await;
        changed.push(said(&*provider, &id).await);
        let read = provider.read_file(&id, "/workspace/from-below", 100).await.unwrap();
        assert_eq!(read, b"changed\n", "a file is read as the sandbox sees it");
        provider.write_file(&id, "/workspace/written", b"w", 0o644).await.unwrap();
        assert_eq!(exec_in(&*provider, &id, "cat written").await.stdout, b"w");
        provider.delete(&id).await.unwrap();
    }
    assert_eq!(changed[0], changed[1], "the second sees nothing of the first");
    assert!(changed[0].starts_with("below"), "{changed:?}");
    let (_, without) = run(&*provider, Limits::default(), "ls").await;
    assert_eq!(without, "", "one without layers has none");
}
