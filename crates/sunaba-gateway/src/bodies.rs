//! The bodies of model requests: how much memory they may hold together, and where they are read.
//!
//! Memory is counted as the bytes arrive, in the sandbox's own share first: whoever fills that does not stand in
//! everybody's way. What was counted is given back when the body is gone. Reading a large body is work for other
//! threads than those that serve requests, and only for a few of them at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::GatewayState;
use crate::admission::Slot;
use crate::model::Refusal;

/// Largest request to a model, in bytes.
pub(crate) const BODY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// What the bodies of one sandbox may hold: two of the largest.
const SANDBOX_BYTES: usize = 2 * BODY_MAX_BYTES;
/// What the bodies of all sandboxes may hold.
const ALL_BYTES: usize = 8 * BODY_MAX_BYTES;
/// Memory is counted in pieces of this size.
const UNIT: usize = 1024;
/// How many large bodies are read at a time.
const READERS: usize = 2;
/// A body of up to this size is read where it arrives: that takes less than handing it over.
const SMALL_BYTES: usize = 64 * 1024;
/// How long a body waits for others to be done, usually.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all sandboxes share.
#[derive(Debug)]
pub(crate) struct Bodies {
    bytes: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    /// How long a body waits for others to be done.
    patience: Duration,
}

impl Default for Bodies {
    fn default() -> Self {
        let readers = Arc::new(Semaphore::new(READERS));
        Self { bytes: Arc::new(Semaphore::new(ALL_BYTES / UNIT)), readers, patience: PATIENCE }
    }
}

/// One sandbox's share.
pub(crate) fn own_share() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(SANDBOX_BYTES / UNIT))
}

/// The memory that was counted for a body.
#[derive(Debug)]
pub(crate) struct Held {
    own: Share,
    all: Share,
}

#[derive(Debug)]
struct Share {
    of: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Takes what is missing; `false` if others do not give it back in time.
    async fn grow_to(&mut self, bytes: usize, patience: Duration) -> bool {
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.div_ceil(UNIT).saturating_sub(taken)).unwrap_or(u32::MAX);
        if missing == 0 {
            return true;
        }
        let Ok(Ok(more)) = timeout(patience, Arc::clone(&self.of).acquire_many_owned(missing)).await else {
            return false;
        };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        true
    }
}

impl Bodies {
    /// Takes a body whole.
    pub(crate) async fn collect(&self, slot: &Slot, mut body: Body) -> Result<(Bytes, Held), Refusal> {
        let share = |of: &Arc<Semaphore>| Share { of: Arc::clone(of), taken: None };
        let mut held = Held { own: share(slot.bytes()), all: share(&self.bytes) };
        let (mut first, mut all) = (Bytes::new(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::invalid("the body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = first.len() + all.len() + data.len();
            if size > BODY_MAX_BYTES {
                return Err(Refusal::too_large(BODY_MAX_BYTES));
            }
            if !held.own.grow_to(size, self.patience).await {
                let words = "this sandbox has too many large requests under way already; try again later";
                return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", words));
            }
            if !held.all.grow_to(size, self.patience).await {
                return Err(Refusal::busy());
            }
            // Most bodies come in one piece, which is then not copied.
            if size == data.len() {
                first = data;
                continue;
            }
            if !first.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
        Ok((if all.is_empty() { first } else { all.freeze() }, held))
    }

    /// Does the work of reading a body of some size where it holds nobody up.
    pub(crate) async fn read<T: Send + 'static>(
        state: &GatewayState,
        size_bytes: usize,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if size_bytes <= SMALL_BYTES {
            return work();
        }
        let readers = Arc::clone(&state.bodies.readers);
        let Ok(Ok(reader)) = timeout(state.bodies.patience, readers.acquire_owned()).await else {
            return Err(Refusal::busy());
        };
        let read = tokio::task::spawn_blocking(move || {
            let _reader = reader;
            work()
        });
        read.await.unwrap_or_else(|error| {
            tracing::error!(%error, "reading a request failed");
            Err(Refusal::unavailable())
        })
    }
}

#[cfg(test)]
mod tests {
    use sunaba_types::SandboxId;

    use super::*;
    use crate::admission::Slots;

    #[tokio::test]
    async fn what_all_bodies_may_hold_is_shared_and_comes_back() {
        let bytes = Arc::new(Semaphore::new(8));
        let bodies = Bodies { bytes, patience: Duration::from_millis(20), ..Bodies::default() };
        let slot = Slots::default().take(&SandboxId::generate()).unwrap();
        let body = || Body::from(vec![b'x'; 5 * UNIT]);
        let (read, held) = bodies.collect(&slot, body()).await.unwrap();
        assert_eq!(read.len(), 5 * UNIT);
        let refused = bodies.collect(&slot, body()).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        drop(held);
        bodies.collect(&slot, body()).await.unwrap();
    }

    #[tokio::test]
    async fn whoever_fills_its_own_share_is_told_to_wait_and_takes_nothing_of_the_others() {
        let bodies = Bodies { patience: Duration::from_millis(20), ..Bodies::default() };
        let slot = Slots::default().take(&SandboxId::generate()).unwrap();
        let all = bodies.bytes.available_permits();
        let share = u32::try_from(SANDBOX_BYTES / UNIT).unwrap();
        let _filled = Arc::clone(slot.bytes()).acquire_many_owned(share).await.unwrap();
        let refused = bodies.collect(&slot, Body::from("{}")).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(bodies.bytes.available_permits(), all);
        let other = Slots::default().take(&SandboxId::generate()).unwrap();
        bodies.collect(&other, Body::from("{}")).await.unwrap();
    }
}
