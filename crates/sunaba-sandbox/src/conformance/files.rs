//! Files in and out.

use sunaba_types::shim::Limits;

use super::{World, create, exec_in, hear, idle, start};
use crate::Error;

/// Before the start and while it runs, in both directions; files belong to the sandbox's user.
pub async fn writes_and_reads(world: &impl World) {
    let provider = world.provider();
    let id = create(&*provider, Limits::default()).await;
    let bytes: Vec<u8> = (0..=255).collect();
    provider.write_file(&id, "/workspace/deep/down/file", &bytes, 0o600).await.unwrap();
    assert_eq!(provider.read_file(&id, "/workspace/deep/down/file", 1000).await.unwrap(), bytes);
    provider.start(&id, super::shell("sleep 600")).await.unwrap();
    provider.write_file(&id, "/home/agent/.tool", b"#!/bin/sh\necho ran\n", 0o755).await.unwrap();
    let script = "wc -c < deep/down/file; ~/.tool; echo changed > deep/down/file; stat -c '%u %a' deep/down ~/.tool | sed s/^$(id -u)/own/";
    let result = exec_in(&*provider, &id, script).await;
    assert_eq!(String::from_utf8_lossy(&result.stdout), "256\nran\nown 755\nown 755\n");
    assert_eq!(provider.read_file(&id, "/workspace/deep/down/file", 1000).await.unwrap(), b"changed\n");
    provider.delete(&id).await.unwrap();
}

/// A limit is kept, also with what has no end.
pub async fn reads_no_more_than_asked(world: &impl World) {
    let provider = world.provider();
    let id = start(
        &*provider,
        Limits::default(),
        "head -c 100000 /dev/zero > big; mkfifo pipe; echo made; sleep 600",
    )
    .await;
    hear(&*provider, &id, "made").await;
    assert_eq!(provider.read_file(&id, "/workspace/big", 10).await.unwrap().len(), 10);
    assert!(matches!(provider.read_file(&id, "/workspace/pipe", 10).await, Err(Error::BadPath { .. })));
    provider.delete(&id).await.unwrap();
}

/// A link inside never leads outside.
pub async fn follows_no_link_out(world: &impl World) {
    let provider = world.provider();
    let script = "ln -s /etc/passwd file; ln -s / root; ln -s ../../../../../.. up; mkdir real; ln -s real within; echo made; sleep 600";
    let id = start(&*provider, Limits::default(), script).await;
    hear(&*provider, &id, "made").await;
    for path in ["/workspace/file", "/workspace/root/etc/passwd", "/workspace/up/etc/passwd"] {
        let read = provider.read_file(&id, path, 10).await;
        assert!(matches!(read, Err(Error::BadPath { .. })), "{path}: {read:?}");
    }
    for path in ["/workspace/root/tmp/out", "/workspace/up/tmp/out"] {
        let written = provider.write_file(&id, path, b"x", 0o644).await;
        assert!(matches!(written, Err(Error::BadPath { .. })), "{path}: {written:?}");
    }
    provider.write_file(&id, "/workspace/within/file", b"x", 0o644).await.unwrap();
    assert_eq!(exec_in(&*provider, &id, "cat real/file").await.stdout, b"x", "links within are fine");
    provider.delete(&id).await.unwrap();
}

/// Errors name the path and what is wrong with it.
pub async fn says_what_is_wrong(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    for path in ["relative", "/etc/passwd", "/workspace/../etc/passwd", "/workspace", "/"] {
        let error = provider.write_file(&id, path, b"x", 0o644).await.unwrap_err();
        assert!(matches!(error, Error::BadPath { .. }), "{path}: {error}");
        assert!(matches!(provider.read_file(&id, path, 1).await, Err(Error::BadPath { .. })), "{path}");
    }
    let error = provider.read_file(&id, "/workspace/none", 1).await.unwrap_err().to_string();
    assert!(error.contains("/workspace/none") && error.contains("no such file"), "{error}");
    exec_in(&*provider, &id, "mkdir dir; echo x > file").await;
    assert!(provider.read_file(&id, "/workspace/dir", 1).await.is_err());
    assert!(provider.write_file(&id, "/workspace/dir", b"", 0o644).await.is_err());
    assert!(provider.write_file(&id, "/workspace/file/below", b"", 0o644).await.is_err());
    provider.delete(&id).await.unwrap();
}
