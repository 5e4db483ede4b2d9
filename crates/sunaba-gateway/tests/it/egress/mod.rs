//! The egress proxy over real sockets, with a real store; only names are made up, and resolve as told.

mod decisions;
mod ledger;
mod made;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sunaba_engine::egress::PrivateHosts;
use sunaba_gateway::{Egress, EgressSettings, Resolve};
use sunaba_store::{SandboxChange, Store};
use sunaba_types::{EgressPreset, Sandbox, SandboxId, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names with their addresses, in the order in which they are given out; the last one stays.
#[derive(Debug, Default)]
struct Names {
    known: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn set(&self, name: &str, answers: &[&[&str]]) {
        let read = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.known.lock().unwrap().insert(name.to_owned(), answers.iter().map(read).collect());
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut known = self.known.lock().unwrap();
        let answers = known.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

struct Proxy {
    _dir: tempfile::TempDir,
    store: Arc<dyn Store>,
    egress: Egress,
    sandbox: Sandbox,
    names: Arc<Names>,
}

impl Proxy {
    async fn new(preset: EgressPreset, allow: &[&str]) -> Self {
        Self::with(preset, allow, "127.0.0.1", |_| {}).await
    }

    /// Everything on 127.0.0.1 stands for the outside when `private` names it.
    async fn with(
        preset: EgressPreset,
        allow: &[&str],
        private: &str,
        adjust: impl FnOnce(&mut EgressSettings),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = sunaba_testkit::open_store(dir.path(), Arc::new(SystemClock)).await;
        let allow = allow.iter().map(|&entry| entry.to_owned()).collect();
        let sandbox = made::sandbox(&*store, sunaba_types::Egress { preset, allow }).await;
        let names = Arc::new(Names::default());
        let mut settings = EgressSettings {
            private_hosts: PrivateHosts::parse(private.split(',')).unwrap(),
            resolver: Arc::clone(&names) as Arc<dyn Resolve>,
            ..EgressSettings::default()
        };
        adjust(&mut settings);
        let egress = Egress::new(Arc::clone(&store), settings);
        Self { _dir: dir, store, egress, sandbox, names }
    }

    /// A connection to the proxy through the sandbox's door.
    fn connect(&self) -> tokio::io::DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (egress, id) = (self.egress.clone(), self.sandbox.id.clone());
        tokio::spawn(async move { egress.serve(id, far).await });
        near
    }

    /// Sends these bytes on a connection of their own; the whole answer.
    async fn say(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an end").unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Asks for a plain URL.
    async fn get(&self, url: &str) -> String {
        let host = url.split('/').nth(2).unwrap();
        self.say(&format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
    }

    /// Asks for a tunnel that is expected not to come.
    async fn connect_refused(&self, target: &str) -> String {
        self.say(&format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n")).await
    }

    /// Opens a tunnel.
    async fn tunnel(&self, target: &str) -> tokio::io::DuplexStream {
        let mut stream = self.connect();
        stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    }

    /// The decisions in the sandbox's log, oldest first.
    async fn events(&self) -> Vec<Value> {
        made::decisions(&*self.store, &self.sandbox.id).await
    }

    async fn cancel(&self) {
        let trigger = Some(sunaba_engine::SandboxTrigger::Cancel);
        let change = SandboxChange { trigger, ..SandboxChange::default() };
        self.store.change_sandbox(&self.sandbox.id, change).await.unwrap();
    }
}

async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        timeout(PATIENCE, stream.read_exact(&mut byte)).await.expect("a head in time").expect("a whole head");
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A server outside that hears one request a connection and gives this answer.
async fn outside(answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let hears = Arc::clone(&hears);
            tokio::spawn(async move {
                let head = read_head(&mut stream).await;
                hears.lock().unwrap().push(head);
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (address, heard)
}

/// A server outside that says back what it hears, and ends when its client does.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn reads(stream: &mut (impl tokio::io::AsyncRead + Unpin), expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("it comes in time").unwrap();
    assert_eq!(bytes, expected);
}

/// Waits until the other side has closed.
async fn ends(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Duration {
    let since = Instant::now();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "the connection must end");
    since.elapsed()
}
