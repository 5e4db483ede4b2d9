//! Numbers about the server, in Prometheus' text form.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Requests answered, by route and status.
pub(crate) const REQUESTS: &str = "sunaba_http_requests_total";
/// How long they took.
pub(crate) const REQUEST_SECONDS: &str = "sunaba_http_request_duration_seconds";
/// Events stored through the API.
pub(crate) const EVENTS: &str = "sunaba_events_stored_total";
/// Events refused.
pub(crate) const EVENTS_REJECTED: &str = "sunaba_events_rejected_total";
/// Messages queued.
pub(crate) const MESSAGES: &str = "sunaba_messages_queued_total";
/// Open WebSockets.
pub(crate) const WEBSOCKETS: &str = "sunaba_websockets_open";
/// Open event streams.
pub(crate) const STREAMS: &str = "sunaba_event_streams_open";
/// Slow readers that were cut off.
pub(crate) const CUT_READERS: &str = "sunaba_slow_readers_cut_total";
/// The feed position that subscribers can see.
pub(crate) const FEED_POSITION: &str = "sunaba_feed_position";

/// Installs the recorder, once for the process, and gives its handle.
///
/// A process whose recorder was installed by somebody else gets a handle that
/// renders only what was recorded through it, that is nothing.
pub fn install() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0])
                .expect("the bucket list is not empty")
                .build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another metrics recorder is installed; /metrics will be empty");
            }
            handle
        })
        .clone()
}

/// A gauge that counts something open, for as long as the guard lives.
#[derive(Debug)]
pub(crate) struct Open(&'static str);

impl Open {
    pub(crate) fn count(name: &'static str) -> Self {
        metrics::gauge!(name).increment(1.0);
        Self(name)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        metrics::gauge!(self.0).decrement(1.0);
    }
}
