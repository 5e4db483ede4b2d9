//! The suite of the port against containers on this host.

use std::sync::Arc;

use sunaba_sandbox::conformance::{World, make_layer};
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
        Some(make_layer(self.dir.path(), target))
    }
}

async fn containers() -> Option<Containers> {
    let daemon = TestDaemon::find("the suite of the port against containers")?;
    Some(Containers { dir: tempfile::tempdir().unwrap(), daemon })
}

mod on_this_host {
    sunaba_sandbox::conformance!(maybe crate::conformance::containers);
}
