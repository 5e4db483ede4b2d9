//! How much of the gateway one sandbox may use at a time.
//!
//! A request holds a slot from before its body is read until its answer is
//! sent, and longer where work goes on behind a client that left. One sandbox
//! that asks without end is told to wait; the others never notice it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderValue, header};
use sunaba_types::SandboxId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Caller;
use crate::bodies::own_share;

/// Requests of one sandbox at a time. A runtime makes one or two; the rest is room for what it starts.
pub(crate) const REQUESTS_MAX: usize = 8;
/// When to try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The slots of all sandboxes that have a request under way.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<HashMap<SandboxId, Weak<Own>>>);

/// What one sandbox has for itself.
#[derive(Debug)]
struct Own {
    requests: Arc<Semaphore>,
    /// What the bodies of its model requests may hold of the server's memory.
    bytes: Arc<Semaphore>,
}

/// A slot that is taken; free again when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
    own: Arc<Own>,
}

impl Slot {
    /// The sandbox's share of the memory for bodies.
    pub(crate) fn bytes(&self) -> &Arc<Semaphore> {
        &self.own.bytes
    }
}

impl Slots {
    /// Takes a slot; none when the sandbox has all of its own in use.
    pub(crate) fn take(&self, sandbox_id: &SandboxId) -> Option<Slot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.get(sandbox_id).and_then(Weak::upgrade).unwrap_or_else(|| {
            known.retain(|_, own| own.strong_count() > 0);
            let fresh = Own { requests: Arc::new(Semaphore::new(REQUESTS_MAX)), bytes: own_share() };
            let fresh = Arc::new(fresh);
            known.insert(sandbox_id.clone(), Arc::downgrade(&fresh));
            fresh
        });
        let permit = Arc::clone(&own.requests).try_acquire_owned().ok()?;
        Some(Slot { _permit: Arc::new(permit), own })
    }
}

/// What [`bound`] needs: the slots, and how to say that there is none.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) slots: Arc<Slots>,
    pub(crate) busy: fn(String) -> Response,
}

/// Lets a request through when its sandbox has a slot left.
pub(crate) async fn bound(State(bound): State<Bound>, mut request: Request, next: Next) -> Response {
    // Without a caller the handlers have nothing to give.
    let Some(caller) = request.extensions().get::<Caller>() else { return next.run(request).await };
    let Some(slot) = bound.slots.take(&caller.sandbox_id) else {
        let words = format!("this sandbox has {REQUESTS_MAX} requests under way already; try again later");
        let mut response = (bound.busy)(words);
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        return response;
    };
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    if response.body().size_hint().exact().is_some() {
        return response; // The answer is made; sending it costs nobody else anything.
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _held = &slot;
            piece
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_one_sandboxs_own_and_come_back() {
        let slots = Slots::default();
        let (one, other) = (SandboxId::generate(), SandboxId::generate());
        let mut held: Vec<Slot> = (0..REQUESTS_MAX).map(|_| slots.take(&one).unwrap()).collect();
        assert!(slots.take(&one).is_none());
        assert!(slots.take(&other).is_some());
        held.pop();
        assert!(slots.take(&one).is_some());
        drop(held);
        slots.take(&other);
        assert_eq!(slots.0.lock().unwrap().len(), 1, "nothing is kept for a sandbox that asks nothing");
    }
}
