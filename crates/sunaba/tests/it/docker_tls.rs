//! A TLS terminator before the server, as a reverse proxy is, with a certificate of an authority nobody knows.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Listens with TLS; what comes is handed on as it is.
pub(crate) struct Terminator {
    pub(crate) url: String,
    behind: Arc<OnceLock<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Terminator {
    /// Listens on a free port of this address, with a certificate for it; the authority is left in `dir/ca.pem`.
    pub(crate) async fn start(host: &str, dir: &Path) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(certified(host, dir)));
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let behind: Arc<OnceLock<String>> = Arc::default();
        let server = Arc::clone(&behind);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(hand_on(client, acceptor.clone(), server.get().cloned().unwrap_or_default()));
            }
        });
        Self { url, behind, task }
    }

    /// Says where the server is.
    pub(crate) fn lead_to(&self, url: &str) {
        self.behind.set(url.trim_start_matches("http://").to_owned()).unwrap();
    }
}

impl Drop for Terminator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn hand_on(client: TcpStream, acceptor: TlsAcceptor, server: String) {
    // A client that does not trust us leaves here, and a server that is away ends it too.
    let (Ok(mut client), Ok(mut server)) = (acceptor.accept(client).await, TcpStream::connect(server).await)
    else {
        return;
    };
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

fn certified(host: &str, dir: &Path) -> rustls::ServerConfig {
    let make = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout ca.key -out ca.pem \
            -subj '/CN=An authority of a test' -addext 'keyUsage=critical,keyCertSign'
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout own.key -out own.csr -subj '/CN=own'
        echo \"subjectAltName=IP:$1\" > own.ext
        openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile own.ext -out own.pem";
    let made = Command::new("sh").args(["-ec", make, "sh", host]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let chain = vec![CertificateDer::from_pem_file(dir.join("own.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join("own.key")).unwrap();
    rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}
