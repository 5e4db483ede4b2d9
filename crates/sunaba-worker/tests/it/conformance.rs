//! The suite of the port against local sandboxes: with the best that the host has, and by sampling alone.

use std::sync::Arc;

use sunaba_sandbox::conformance::{World, make_layer};
use sunaba_sandbox::{Keeping, Layer, Provider};

use crate::support::{clear, provider_in};

#[derive(Debug)]
struct Local {
    dir: tempfile::TempDir,
    keeping: Keeping,
}

impl World for Local {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(provider_in(self.dir.path()).keeping(self.keeping))
    }

    fn fresh_provider(&self) -> Arc<dyn Provider> {
        self.provider()
    }

    fn layer(&self, target: &str) -> Option<Layer> {
        Some(make_layer(self.dir.path(), target))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        clear(self.dir.path());
    }
}

async fn best() -> Local {
    Local { dir: tempfile::tempdir().unwrap(), keeping: Keeping::Best }
}

async fn sampling() -> Local {
    Local { dir: tempfile::tempdir().unwrap(), keeping: Keeping::Sampling }
}

mod kept_at_best {
    sunaba_sandbox::conformance!(crate::conformance::best);
}

mod kept_by_sampling {
    sunaba_sandbox::conformance!(crate::conformance::sampling);
}
