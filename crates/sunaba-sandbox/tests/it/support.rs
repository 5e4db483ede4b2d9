//! A container provider in a directory of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sunaba_sandbox::{
    CreateRequest, DockerOptions, DockerProvider, ExecRequest, Exit, Limits, Provider as _, StartRequest,
};
use sunaba_types::SandboxId;
use tokio::time::timeout;

use crate::daemon::TestDaemon;

/// Longest that anything here may take; containers share two cores with every other test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A data directory, a provider in it and the daemon it uses.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) daemon: TestDaemon,
    pub(crate) provider: DockerProvider,
}

impl Host {
    /// `None`, with a note, where there is no daemon.
    pub(crate) fn new(what: &str) -> Option<Self> {
        let daemon = TestDaemon::find(what)?;
        let dir = tempfile::tempdir().unwrap();
        let provider = provider_in(dir.path(), &daemon);
        Some(Self { dir, daemon, provider })
    }

    /// Prepares and starts a shell command under these limits.
    pub(crate) async fn start(&self, script: &str, limits: Limits) -> SandboxId {
        let id = SandboxId::generate();
        self.provider.create(&id, &CreateRequest { limits, image: None }).await.unwrap();
        self.provider.start(&id, shell(script)).await.unwrap();
        id
    }

    /// Runs a shell command to its end; how it ended and what it wrote.
    pub(crate) async fn run(&self, script: &str, limits: Limits) -> (Exit, String) {
        let id = self.start(script, limits).await;
        let exit = self.wait(&id).await;
        let output = self.provider.output(&id, 0, 1 << 20).await.unwrap();
        self.provider.delete(&id).await.unwrap();
        (exit, String::from_utf8_lossy(&output).into_owned())
    }

    pub(crate) async fn wait(&self, id: &SandboxId) -> Exit {
        timeout(PATIENCE, self.provider.wait(id)).await.expect("it ends").unwrap()
    }

    /// Waits until the sandbox has written something.
    pub(crate) async fn until_it_says(&self, id: &SandboxId, word: &str) {
        let said = async {
            loop {
                let output = self.provider.output(id, 0, 1 << 20).await.unwrap();
                if String::from_utf8_lossy(&output).contains(word) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("it never said {word}"));
    }
}

/// A provider as a newly started server makes it.
pub(crate) fn provider_in(dir: &Path, daemon: &TestDaemon) -> DockerProvider {
    DockerProvider::new(options(dir, daemon)).unwrap()
}

pub(crate) fn options(dir: &Path, daemon: &TestDaemon) -> DockerOptions {
    DockerOptions {
        host: daemon.host.clone(),
        remote: false,
        root: dir.join("docker"),
        logs: dir.join("logs"),
        worker_program: crate::daemon::worker_program(),
        default_image: daemon.image.clone(),
        instance: dir.file_name().unwrap().to_string_lossy().into_owned(),
        network: None,
    }
}

/// A request that runs a shell script.
pub(crate) fn shell(script: &str) -> StartRequest {
    StartRequest {
        env: [("GREETING", "hello"), ("HOME", "/home/agent")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        ..StartRequest::default()
    }
}

/// One more shell script in a running sandbox.
pub(crate) fn exec(script: &str) -> ExecRequest {
    ExecRequest {
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        env: BTreeMap::from([("MORE".to_owned(), "given".to_owned())]),
        input: Vec::new(),
        timeout: PATIENCE,
        output_max: 1 << 20,
    }
}
