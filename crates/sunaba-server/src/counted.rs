//! A connection that holds its place among those allowed, and is given up when nobody reads it.

use std::time::Duration;

use sunaba_gateway::{Minds, Patient};
use tokio::sync::OwnedSemaphorePermit;

/// How long a write may find no room at all.
const WRITE_IDLE: Duration = Duration::from_secs(120);

/// See the module.
pub(crate) type Counted<S> = Patient<S, OwnedSemaphorePermit>;

/// Lets a stream take a place.
pub(crate) fn counted<S>(stream: S, place: OwnedSemaphorePermit) -> Counted<S> {
    Patient::new(stream, place, Minds::Writes, WRITE_IDLE)
}
