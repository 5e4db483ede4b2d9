//! One command in one sandbox, with what it finds there.

use std::path::Path;
use std::time::Duration;

use sunaba_sandbox::{CreateRequest, Error, Exit, HostPlaces, LocalProvider, Provider as _, StartRequest};
use sunaba_types::SandboxId;
use tokio::time::timeout;

/// Longest that a program of the size of a compiler may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// Runs a request to its end; `prepare` fills the workspace before.
pub(crate) async fn run(
    provider: &LocalProvider,
    request: StartRequest,
    prepare: impl FnOnce(&HostPlaces),
) -> Result<(Exit, String), Error> {
    let id = SandboxId::generate();
    let places = provider.create(&id, &CreateRequest::default()).await?.here().unwrap();
    prepare(&places);
    let started = provider.start(&id, request).await;
    let result = match started {
        Ok(()) => {
            let exit = timeout(LONG, provider.wait(&id)).await.expect("it ends")?;
            let output = provider.output(&id, 0, 4 << 20).await?;
            Ok((exit, String::from_utf8_lossy(&output).into_owned()))
        }
        Err(error) => Err(error),
    };
    provider.delete(&id).await?;
    result
}

/// Writes a file of the sandbox's user.
pub(crate) fn put(places: &HostPlaces, name: &str, content: &str) {
    let path = places.workspace.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    give(&places.workspace, places.owner_uid);
}

/// Makes a whole tree the sandbox user's.
pub(crate) fn give(path: &Path, owner: Option<u32>) {
    let Some(owner) = owner else { return };
    std::os::unix::fs::lchown(path, Some(owner), Some(owner)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), Some(owner));
        }
    }
}
