//! What the suites share: a provider in a directory of its own, and waiting for conditions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_sandbox::{Exit, HostPlaces, Limits, LocalOptions, LocalProvider, Provider as _, StartRequest};
use sunaba_types::SandboxId;
use tokio::time::{Instant, sleep, timeout};

/// Longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A data directory and a provider in it. Sandboxes that a test leaves are removed with it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) provider: LocalProvider,
}

impl Drop for Host {
    fn drop(&mut self) {
        clear(self.dir.path());
    }
}

/// Removes every sandbox of a data directory: a process, a group or a mount must not outlive its test.
pub(crate) fn clear(dir: &Path) {
    let dir = dir.to_owned();
    let clearing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let provider = provider_in(&dir);
            for id in provider.list().await.unwrap() {
                provider.delete(&id).await.unwrap();
            }
            provider.close().await.unwrap();
        });
    });
    let cleared = clearing.join();
    assert!(cleared.is_ok() || std::thread::panicking(), "what the test left could not be removed");
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
        self.start_with(Limits::default(), script).await
    }

    /// The same, with limits.
    pub(crate) async fn start_with(&self, limits: Limits, script: &str) -> (SandboxId, HostPlaces) {
        let id = SandboxId::generate();
        let request = sunaba_sandbox::CreateRequest { limits, image: None };
        let prepared = self.provider.create(&id, &request).await.unwrap().here().unwrap();
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
