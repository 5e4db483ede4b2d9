//! Health, readiness, numbers.

pub(crate) mod healthz;
pub(crate) mod metrics;
pub(crate) mod readyz;
