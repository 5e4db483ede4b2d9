//! The egress proxy: HTTP/1.1 with `CONNECT` and absolute-form requests, for one sandbox's streams at a time.
//!
//! Who asks is known by the door that a stream came through; no header says so.
//! For each request the sandbox's standing and policy are looked up, the host's
//! name is judged by the policy, then every address it resolves to, and only an
//! address that was judged is dialled: a name is never resolved twice. Each
//! decision becomes a `gateway.egress` event of the sandbox.
//!
//! It never looks inside a tunnel: what a client says in TLS, also the name it
//! asks for there, is between it and the host that was allowed.

mod address;
mod book;
mod dial;
mod forward;
mod headers;
mod ledger;
mod refusal;
mod request;
mod terms;
mod traffic;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use sunaba_engine::egress::PrivateHosts;
use sunaba_store::Store;
use sunaba_types::SandboxId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

pub use address::{Resolve, SystemResolver};

use book::{Outcome, Verdict};
use dial::{Dialled, Failed};
use ledger::Ledger;
use request::Target;
use terms::TermsCache;
use traffic::Outside;

/// Largest head of a request.
const HEAD_MAX_BYTES: usize = 32 * 1024;
/// What a connection may hold in memory; more than a head, so that one that is too large can be answered.
const BUFFER_MAX_BYTES: usize = 4 * HEAD_MAX_BYTES;
/// Most header lines of a request.
const HEADERS_MAX: usize = 128;
/// Each direction of a tunnel copies through a buffer of this size.
const TUNNEL_BUFFER_BYTES: usize = 32 * 1024;

/// How the proxy behaves.
#[derive(Debug, Clone)]
pub struct EgressSettings {
    /// Hosts and networks that may be reached although their addresses are not public.
    pub private_hosts: PrivateHosts,
    /// Turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// How long resolving a name may take.
    pub resolve_timeout: Duration,
    /// How long connecting may take, over all addresses of a host.
    pub connect_timeout: Duration,
    /// How long a client may take to send a request's head, and be idle between requests.
    pub head_timeout: Duration,
    /// How long a connection to the outside may carry nothing.
    pub idle_timeout: Duration,
    /// How often repeated decisions are written down.
    pub summary_interval: Duration,
    /// How often it is asked whether a sandbox with open connections still has its say.
    pub recheck_interval: Duration,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            private_hosts: PrivateHosts::default(),
            resolver: Arc::new(SystemResolver::default()),
            resolve_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(20),
            head_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(600),
            summary_interval: Duration::from_secs(60),
            recheck_interval: Duration::from_secs(5),
        }
    }
}

/// The egress proxy of all sandboxes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Egress {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: EgressSettings,
    terms: TermsCache,
    ledger: Ledger,
}

/// What one stream's requests share. Dropping it ends all that they began.
#[derive(Debug, Default)]
struct Stream {
    /// Connections to the outside that plain requests use.
    drivers: Mutex<JoinSet<()>>,
    /// A tunnel that was promised; it begins when the client's side is handed over.
    tunnel: Mutex<Option<(OnUpgrade, Outside)>>,
}

impl Egress {
    /// Makes the proxy.
    pub fn new(store: Arc<dyn Store>, settings: EgressSettings) -> Self {
        let ledger = Ledger::new(Arc::clone(&store), settings.summary_interval);
        Self { inner: Arc::new(Inner { settings, terms: TermsCache::new(store), ledger }) }
    }

    /// Serves one stream to its end. Dropping the future ends everything that it began.
    pub async fn serve(&self, id: SandboxId, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        tokio::select! {
            () = self.converse(&id, stream) => {}
            () = self.standing_lost(&id) => {}
        }
    }

    /// The sandbox's door is closed: writes down what is not yet, and forgets it.
    pub async fn closed(&self, id: &SandboxId) {
        self.inner.terms.forget(id);
        self.inner.ledger.close(id).await;
    }

    /// Writes down everything that is not yet.
    pub async fn drained(&self) {
        self.inner.ledger.drain().await;
    }

    async fn converse(&self, id: &SandboxId, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let shared = Arc::new(Stream::default());
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            let (egress, id, shared) = (self.clone(), id.clone(), Arc::clone(&shared));
            async move { Ok::<_, std::convert::Infallible>(egress.answer(&id, request, &shared).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.inner.settings.head_timeout)
            .max_header_size(HEAD_MAX_BYTES)
            .max_buf_size(BUFFER_MAX_BYTES)
            .max_headers(HEADERS_MAX)
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            // Clients leave in the middle all the time.
            tracing::trace!(%error, "an egress connection ended early");
        }
        let tunnel = shared.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((client, mut outside)) = tunnel
            && let Ok(client) = client.await
        {
            let (mut client, size) = (TokioIo::new(client), TUNNEL_BUFFER_BYTES);
            // It ends when both sides have, or one breaks, or nothing moves for too long.
            let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut outside, size, size).await;
        }
    }

    /// Returns when the sandbox has ended or another took its place.
    async fn standing_lost(&self, id: &SandboxId) {
        loop {
            tokio::time::sleep(self.inner.settings.recheck_interval).await;
            if self.inner.terms.of(id).await.is_err_and(|lost| lost.is_final()) {
                return;
            }
        }
    }

    async fn answer(&self, id: &SandboxId, request: Request<Incoming>, stream: &Stream) -> Response<Body> {
        let target = match Target::of(&request) {
            Ok(target) => target,
            Err(words) => return refusal::bad_request(words),
        };
        match self.way_to(id, &target, request.method()).await {
            Ok(outside) if request.method() == Method::CONNECT => {
                let promised = (hyper::upgrade::on(request), outside);
                *stream.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(promised);
                Response::new(Body::empty())
            }
            Ok(outside) => forward::forward(request, &target, outside, &stream.drivers).await,
            Err(refused) => refused,
        }
    }

    /// Decides, dials and writes down what came of it, all before the client hears anything; what is not to be is
    /// an answer.
    async fn way_to(
        &self,
        id: &SandboxId,
        target: &Target,
        method: &Method,
    ) -> Result<Outside, Response<Body>> {
        let terms = self.inner.terms.of(id).await;
        let decided = match &terms {
            Ok(terms) => terms.decide(target),
            Err(lost) if !lost.is_final() => return Err(refusal::unavailable(&lost.to_string())),
            Err(lost) => Verdict::refused(lost.to_string()),
        };
        let dialled = if decided.allowed { Some(self.dial(target).await) } else { None };
        let (decided, outcome, answer) = match dialled {
            None => {
                let answer = match &terms {
                    Ok(_) => refusal::by_policy(target, &decided.rule),
                    Err(_) => refusal::without_standing(target, &decided.rule),
                };
                (decided, Outcome::default(), Err(answer))
            }
            Some(Ok(dialled)) => (decided, Outcome::reached(dialled.address), Ok(dialled)),
            Some(Err(Failed::Refused { address, what })) => {
                let verdict = Verdict::refused(format!("address {address} is {what}"));
                let answer = refusal::by_address(target, &verdict.rule);
                (verdict, Outcome::reached(address), Err(answer))
            }
            Some(Err(failed)) => {
                let answer = refusal::failed(target, &failed);
                (decided, Outcome::failed(failed.to_string()), Err(answer))
            }
        };
        let traffic = self.inner.ledger.decided(id, target, method, decided, outcome).await;
        let patience = self.inner.settings.idle_timeout;
        answer.map(|dialled: Dialled| traffic::outside(dialled.stream, patience, traffic))
    }

    async fn dial(&self, target: &Target) -> Result<Dialled, Failed> {
        dial::dial(&self.inner.settings, target).await
    }
}
