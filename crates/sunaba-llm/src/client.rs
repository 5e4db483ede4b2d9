//! The streaming client: one connection a call, closed when the call is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::hints;
use crate::{Accumulator, Error, MessagesRequest, Reply, SseParser, StreamEvent};

const API_VERSION: &str = "2023-06-01";
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;
const REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// What a caller shows to be let in. Never printed.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes the key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for a program that makes the calls.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey(..)")
    }
}

/// Where and how to call.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Everything before `/v1/messages`, plain `http`.
    pub base_url: String,
    /// Sent as `x-api-key`.
    pub api_key: ApiKey,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long the answer may take to begin. Long: the bridge holds requests while the server is away.
    pub response_timeout: Duration,
    /// How long the stream may be silent once it has begun.
    pub idle_timeout: Duration,
}

impl ClientConfig {
    /// The usual times.
    pub fn new(base_url: impl Into<String>, api_key: ApiKey) -> Self {
        Self {
            base_url: base_url.into(),
            api_key,
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(65 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
        }
    }
}

/// Calls the model. Cheap to clone; holds no connection.
#[derive(Debug, Clone)]
pub struct Client {
    config: ClientConfig,
    api_key: HeaderValue,
    /// `host:port`, for the socket.
    address: String,
    /// As the base URL has it, for the `Host` header.
    authority: HeaderValue,
    path: Uri,
}

impl Client {
    /// Checks the configuration.
    ///
    /// # Errors
    /// When the base URL is not plain `http` with a host, or the key cannot stand in a header.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let refuse =
            |reason: &str| Error::BaseUrl { url: config.base_url.clone(), reason: reason.to_owned() };
        let base: Uri = config.base_url.parse().map_err(|_| refuse("it is not a URL"))?;
        if base.scheme_str() != Some("http") {
            return Err(refuse("only http:// is spoken here"));
        }
        let authority = base.authority().ok_or_else(|| refuse("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("it carries a user name"));
        }
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        let path = format!("{}/v1/messages", base.path().trim_end_matches('/'));
        let path = path.parse().map_err(|_| refuse("its path cannot be used"))?;
        let authority =
            HeaderValue::from_str(authority.as_str()).map_err(|_| refuse("its host cannot be used"))?;
        let mut api_key = HeaderValue::from_str(&config.api_key.0).map_err(|_| Error::ApiKey)?;
        api_key.set_sensitive(true);
        Ok(Self { api_key, address, authority, path, config })
    }

    /// Starts a call; the answer comes piece by piece from the stream. Dropping either ends the call.
    ///
    /// # Errors
    /// When no answer begins, or when the answer is an error.
    pub async fn stream(&self, request: &MessagesRequest) -> Result<ReplyStream, Error> {
        tracing::debug!(model = %request.model, messages = request.messages.len(), "model call");
        let request = self.encode(request)?;
        let (mut sender, connection) = self.connect().await?;
        let response = within(self.config.response_timeout, "an answer was to begin", async {
            sender.send_request(request).await.map_err(Error::Transport)
        })
        .await?;
        if response.status() != StatusCode::OK {
            return Err(self.read_error(response).await);
        }
        if !is_event_stream(response.headers()) {
            return Err(Error::Malformed("the answer is not an event stream".to_owned()));
        }
        Ok(ReplyStream {
            body: response.into_body(),
            parser: SseParser::default(),
            ready: VecDeque::new(),
            received_bytes: 0,
            idle_timeout: self.config.idle_timeout,
            _connection: connection,
        })
    }

    /// Calls and puts the whole answer together in `accumulator`, which keeps the usage seen so far when the
    /// call fails or is dropped.
    ///
    /// # Errors
    /// As [`Self::stream`] and [`ReplyStream::next`].
    pub async fn complete(
        &self,
        request: &MessagesRequest,
        accumulator: &mut Accumulator,
    ) -> Result<Reply, Error> {
        let mut stream = self.stream(request).await?;
        while !accumulator.is_whole() {
            let event = stream.next().await?.ok_or(Error::Truncated)?;
            accumulator.push(event)?;
        }
        std::mem::take(accumulator).finish()
    }

    fn encode(&self, request: &MessagesRequest) -> Result<Request<Full<Bytes>>, Error> {
        let body = serde_json::to_vec(request).map_err(Error::Encode)?;
        let mut built = Request::new(Full::new(Bytes::from(body)));
        *built.method_mut() = http::Method::POST;
        *built.uri_mut() = self.path.clone();
        let headers = built.headers_mut();
        headers.insert(HOST, self.authority.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
        headers.insert("x-api-key", self.api_key.clone());
        Ok(built)
    }

    async fn connect(&self) -> Result<(http1::SendRequest<Full<Bytes>>, ConnectionTask), Error> {
        let refused = |source| Error::Connect { address: self.address.clone(), source };
        let (sender, connection) = within(self.config.connect_timeout, "connecting", async {
            let socket = TcpStream::connect(&self.address).await.map_err(refused)?;
            socket.set_nodelay(true).map_err(refused)?;
            http1::handshake(TokioIo::new(socket)).await.map_err(Error::Transport)
        })
        .await?;
        // Errors of the connection reach the caller through the request and the body.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok((sender, ConnectionTask(task)))
    }

    async fn read_error(&self, response: Response<Incoming>) -> Error {
        let (head, body) = response.into_parts();
        let body = timeout(self.config.idle_timeout, Limited::new(body, ERROR_BODY_MAX_BYTES).collect());
        let body = body.await.ok().and_then(Result::ok).map(|whole| whole.to_bytes()).unwrap_or_default();
        let (kind, message) = describe_error(head.status, &body);
        Error::Api {
            status: Some(head.status.as_u16()),
            kind,
            message,
            retry_after: hints::retry_after(head.status, &head.headers),
            should_retry: hints::should_retry(&head.headers),
        }
    }
}

/// An answer that is being written.
#[derive(Debug)]
pub struct ReplyStream {
    body: Incoming,
    parser: SseParser,
    ready: VecDeque<StreamEvent>,
    received_bytes: usize,
    idle_timeout: Duration,
    _connection: ConnectionTask,
}

impl ReplyStream {
    /// The next event; none when the stream has ended.
    ///
    /// # Errors
    /// When the connection breaks, nothing comes for too long, or what comes cannot be read.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let frame = within(self.idle_timeout, "the answer was to go on", async {
                self.body.frame().await.transpose().map_err(Error::Transport)
            })
            .await?;
            let Some(frame) = frame else { return Ok(None) };
            if let Some(bytes) = frame.data_ref() {
                self.take(bytes)?;
            }
        }
    }

    fn take(&mut self, bytes: &Bytes) -> Result<(), Error> {
        self.received_bytes = self.received_bytes.saturating_add(bytes.len());
        if self.received_bytes > REPLY_MAX_BYTES {
            return Err(Error::TooLarge { limit_bytes: REPLY_MAX_BYTES });
        }
        let mut events = Vec::new();
        self.parser.push(bytes, &mut events)?;
        for event in events {
            let parsed = serde_json::from_str(&event.data)
                .map_err(|error| Error::Malformed(format!("event {:?}: {error}", event.event)))?;
            self.ready.push_back(parsed);
        }
        Ok(())
    }
}

/// Drives a connection; ends it when dropped.
#[derive(Debug)]
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn within<T>(
    after: Duration,
    waiting_for: &'static str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(after, work).await.unwrap_or(Err(Error::Timeout { waiting_for, after }))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// The API's own words where the body has them; `title` and `detail` are those of a problem document.
fn describe_error(status: StatusCode, body: &[u8]) -> (String, String) {
    let parsed: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let word =
        |paths: &[&str]| paths.iter().find_map(|path| parsed.pointer(path)?.as_str().map(ToOwned::to_owned));
    let kind = word(&["/error/type", "/code"]).unwrap_or_else(|| "http_error".to_owned());
    let message = word(&["/error/message", "/detail", "/title"])
        .unwrap_or_else(|| status.canonical_reason().unwrap_or("unknown status").to_owned());
    (kind, message)
}
