//! The suite of the port against containers on this host.

use std::path::PathBuf;
use std::sync::Arc;

use sunaba_sandbox::conformance::World;
use sunaba_sandbox::{Layer, Provider};

use crate::daemon::TestDaemon;
use crate::support::provider_in;

#[derive(Debug)]
struct Containers {
    dir: tempfile::TempDir,
    daemon: TestDaemon,
}

impl World for Containers {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(provider_in(self.dir.path(), &self.daemon))
    }

    fn fresh_provider(&self) -> Arc<dyn Provider> {
        self.provider()
    }

    fn layer(&self, target: &str) -> Option<Layer> {
        use std::os::unix::fs::PermissionsExt as _;
        let path: PathBuf = self.dir.path().join("layer");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("from-below"), "below\n").unwrap();
        for (path, mode) in [(path.clone(), 0o777), (path.join("from-below"), 0o666)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Some(Layer { source: path.to_str().unwrap().to_owned(), target: target.to_owned() })
    }
}

async fn containers() -> Option<Containers> {
    let daemon = TestDaemon::find("the suite of the port against containers")?;
    Some(Containers { dir: tempfile::tempdir().unwrap(), daemon })
}

mod on_this_host {
    sunaba_sandbox::conformance!(maybe crate::conformance::containers);
}
