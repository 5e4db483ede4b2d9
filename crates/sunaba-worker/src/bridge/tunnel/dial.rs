//! Reaches the server's tunnel: TCP, TLS where the address says so, and the upgrade.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// What the upgraded connection speaks.
const PROTOCOL: &str = "sunaba-tunnel";
/// Longest that one try may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection whose carrier is nobody's concern.
pub(super) type Dialled = TokioIo<Upgraded>;

/// Where the tunnel is. Its path holds the sandbox's token, so it is never shown whole.
pub(super) struct Address {
    secure: bool,
    host: String,
    port: u16,
    path: String,
    /// One more authority that the server's certificate may be of, in PEM.
    authority: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.shown()).finish()
    }
}

impl Address {
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        // Not repeated in the error: it holds a token.
        let uri: Uri = url.parse().ok().context("the tunnel's address cannot be read")?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => bail!("the tunnel's address begins with neither http:// nor https://"),
        };
        let authority = uri.authority().context("the tunnel's address names no host")?;
        Ok(Self {
            secure,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            path: uri.path().to_owned(),
            authority: None,
        })
    }

    /// Trusts this authority (PEM) besides those of the image.
    pub(super) fn trusting(self, authority: Option<&str>) -> Self {
        Self { authority: authority.map(str::to_owned), ..self }
    }

    /// The server, without the token.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Opens the connection.
pub(super) async fn dial(address: &Address) -> anyhow::Result<Dialled> {
    timeout(PATIENCE, connect(address)).await.context("no answer in time")?
}

async fn connect(address: &Address) -> anyhow::Result<Dialled> {
    let host = address.host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, address.port)).await.context("no connection")?;
    let _ = stream.set_nodelay(true);
    if !address.secure {
        return upgrade(address, stream).await;
    }
    let name = ServerName::try_from(host.to_owned()).context("the server's name cannot be checked")?;
    let stream = TlsConnector::from(tls(address.authority.as_deref())?)
        .connect(name, stream)
        .await
        .context("no TLS")?;
    upgrade(address, stream).await
}

/// What the server's certificate is checked against: the authorities that the image trusts, and a given one.
fn tls(authority: Option<&str>) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(authority.unwrap_or_default().as_bytes()) {
        let certificate = certificate.ok().context("the given certificate authority cannot be read")?;
        roots.add(certificate).context("the given certificate authority cannot be used")?;
    }
    if roots.is_empty() {
        bail!("the image trusts no certificate authority: install its ca-certificates");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS cannot be used")?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

async fn upgrade(
    address: &Address,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<Dialled> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends when the upgraded connection is taken out of it, or with it.
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(address.path.as_str())
        .header(header::HOST, address.shown())
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .ok()
        .context("the tunnel's address cannot be asked for")?;
    let response = sender.send_request(request).await.context("no answer")?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        bail!("the server refuses the tunnel ({})", response.status());
    }
    Ok(TokioIo::new(hyper::upgrade::on(response).await.context("the connection did not switch")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_shown_whole() {
        let address = Address::parse("https://sunaba.example/w/sun_sandbox_secret/tunnel").unwrap();
        assert!(address.secure && address.port == 443);
        assert!(!format!("{address:?} {}", address.shown()).contains("secret"));
        let address = Address::parse("http://[::1]:8080/w/t/tunnel").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.secure), ("[::1]", 8080, false));
        for wrong in ["ftp://x/w/secret", "/w/secret", "http:///w/secret", ""] {
            let error = Address::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
