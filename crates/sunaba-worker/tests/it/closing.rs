//! The orderly end of a server, as its provider sees it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sunaba_sandbox::{Provider as _, cgroup};

use crate::support::provider_in;

/// The server's own groups and mounts.
fn traces(data: &Path) -> Vec<String> {
    let root = data.join("sandboxes").canonicalize().unwrap();
    let tag = cgroup::tag(&root);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    let of_it = |point: &&Path| point.starts_with(&root) || point.join(&tag).exists();
    points.filter(of_it).map(|point| point.display().to_string()).collect()
}

#[test]
fn a_look_at_the_host_is_finished_before_the_server_ends() {
    for pause_ms in [0, 1, 5, 20] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let provider = Arc::new(provider_in(dir.path()));
        let looking = Arc::clone(&provider);
        runtime.spawn(async move { looking.isolation().await });
        runtime.block_on(async {
            // Several moments of the look; whether it has begun is not to be seen from outside.
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            provider.close().await.unwrap();
        });
        // As the server does: whatever still runs is not waited for.
        runtime.shutdown_background();
        assert_eq!(traces(dir.path()), Vec::<String>::new(), "closed after {pause_ms} ms");
    }
}
