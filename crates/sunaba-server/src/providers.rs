//! What the providers can do, remembered for a few seconds: probing a host takes time, and every request
//! for a sandbox asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::{ApiError, ProviderReport, ProviderReports};

/// How long a report is taken as true.
const REMEMBER_FOR: Duration = Duration::from_secs(15);
/// How long a report may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Remembered {
    reports: Arc<[ProviderReport]>,
    until: Instant,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Providers {
    source: Option<Arc<dyn ProviderReports>>,
    remembered: Mutex<Option<Remembered>>,
}

impl Providers {
    pub(crate) fn new(source: Option<Arc<dyn ProviderReports>>) -> Self {
        Self { source, remembered: Mutex::default() }
    }

    /// What every provider can do; empty without anybody to ask. Whoever comes while one asks waits for
    /// that answer.
    pub(crate) async fn reports(&self) -> Result<Arc<[ProviderReport]>, ApiError> {
        let Some(source) = &self.source else { return Ok(Arc::from([])) };
        let silent = || {
            ApiError::unavailable("providers_silent", "the providers did not say what they can do; try again")
        };
        let mut remembered = timeout(PATIENCE, self.remembered.lock()).await.map_err(|_| silent())?;
        if let Some(held) = remembered.as_ref().filter(|held| held.until > Instant::now()) {
            return Ok(Arc::clone(&held.reports));
        }
        let reports: Arc<[ProviderReport]> =
            timeout(PATIENCE, source.report()).await.map_err(|_| silent())?.into();
        let until = Instant::now() + REMEMBER_FOR;
        *remembered = Some(Remembered { reports: Arc::clone(&reports), until });
        Ok(reports)
    }

    /// What one provider can do; none if nobody reports on it.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<ProviderReport>, ApiError> {
        Ok(self.reports().await?.iter().find(|report| report.name == name).cloned())
    }
}
