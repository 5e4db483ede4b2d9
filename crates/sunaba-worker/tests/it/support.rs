//! What the suites share: a provider in a directory of its own, and waiting for conditions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_sandbox::{Exit, HostPlaces, LocalOptions, LocalProvider, Provider as _, StartRequest};
use sunaba_types::SandboxId;
use tokio::time::{Instant, sleep, timeout};

/// Longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A data directory and a provider in it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) provider: LocalProvider,
}

/// Whether sandboxes get a host user of their own here.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

impl Host {
    /// Fails loudly where no sandbox can be made: a suite that silently skips proves nothing.
    pub(crate) async fn new() -> Self {
        assert!(
            sunaba_sandbox::find_bubblewrap().is_some(),
            "these tests need bubblewrap: install the package"
        );
        let dir = tempfile::tempdir().unwrap();
        let provider = provider_in(dir.path());
        let isolation = provider.isolation().await.expect("this host must be able to isolate");
        assert!(isolation.namespaces && isolation.network_closed);
        assert_eq!(isolation.own_uid, is_root());
        Self { dir, provider }
    }

    pub(crate) fn sandbox_dir(&self, id: &SandboxId) -> PathBuf {
        self.dir.path().join("sandboxes").join(id.as_str())
    }

    /// Prepares and starts a shell command.
    pub(crate) async fn start(&self, script: &str) -> (SandboxId, HostPlaces) {
        let id = SandboxId::generate();
        let prepared = self
            .provider
            .create(&id, &sunaba_sandbox::CreateRequest::default())
            .await
            .unwrap()
            .here()
            .unwrap();
        self.provider.start(&id, shell(script)).await.unwrap();
        (id, prepared)
    }

    /// Runs a shell command to its end; what it wrote and how it ended.
    pub(crate) async fn run(&self, script: &str) -> (Exit, String) {
        let (id, _) = self.start(script).await;
        let exit = timeout(PATIENCE, self.provider.wait(&id)).await.expect("it ends").unwrap();
        let output = self.provider.output(&id, 0, 1 << 20).await.unwrap();
        self.provider.delete(&id).await.unwrap();
        (exit, String::from_utf8_lossy(&output).into_owned())
    }
}

/// A provider as a newly started server makes it.
pub(crate) fn provider_in(dir: &Path) -> LocalProvider {
    LocalProvider::new(LocalOptions {
        root: dir.join("sandboxes"),
        logs: dir.join("logs"),
        worker_program: PathBuf::from(env!("CARGO_BIN_EXE_sunaba-worker")),
    })
    .unwrap()
}

/// A request that runs a shell script.
pub(crate) fn shell(script: &str) -> StartRequest {
    StartRequest {
        env: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        ..StartRequest::default()
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
