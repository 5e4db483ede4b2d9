//! Programs in real sandboxes and the way out: bridge, socket, proxy, policy, log.
//!
//! The outside is a small server on this machine under made-up names, which the proxy is told to
//! resolve to it; the programs themselves are unchanged and know only the proxy variables.

mod closed;
/// The gateway's own file.
#[path = "../../../../sunaba-gateway/tests/it/egress/made.rs"]
mod made;
mod outside;
mod programs;
mod tls;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sunaba_engine::egress::PrivateHosts;
use sunaba_gateway::{Egress, EgressSettings, Resolve};
use sunaba_sandbox::{Bind, CreateRequest, HostPlaces, Provider as _, StartRequest};
use sunaba_store::Store;
use sunaba_types::shim::{EGRESS_SOCKET, PROXY_ADDRESS};
use sunaba_types::{EgressPreset, SandboxId, SystemClock};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::Host;
use crate::trial::{self, LONG};

/// The names of the outside, and what they resolve to.
#[derive(Debug)]
struct Names(HashMap<&'static str, &'static str>);

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = self.0.get(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(vec![found.parse().unwrap()])
    }
}

/// A host with a store and the egress proxy.
struct World {
    host: Host,
    store: Arc<dyn Store>,
    egress: Egress,
}

/// What came of a script in a sandbox.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    output: String,
    events: Vec<Value>,
}

impl Ran {
    /// The decisions about a host: decision and rule.
    fn decisions(&self, host: &str) -> Vec<(String, String)> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let about = self.events.iter().filter(|event| event["host"] == host && event["count"] != 0);
        about.map(|event| (text(event, "decision"), text(event, "rule"))).collect()
    }
}

impl World {
    async fn new() -> Self {
        let host = Host::new().await;
        let store = sunaba_testkit::open_store(host.dir.path(), Arc::new(SystemClock)).await;
        let names = Names(HashMap::from([
            ("registry.test", "127.0.0.1"),
            ("inside.test", "10.0.0.1"),
            ("localhost", "127.0.0.1"),
        ]));
        let settings = EgressSettings {
            private_hosts: PrivateHosts::parse(["registry.test"]).unwrap(),
            resolver: Arc::new(names),
            ..EgressSettings::default()
        };
        let egress = Egress::new(Arc::clone(&store), settings);
        Self { host, store, egress }
    }

    /// Runs a script in a sandbox that may reach what is listed.
    async fn run(&self, preset: EgressPreset, allow: &[&str], script: &str) -> Ran {
        self.run_with(preset, allow, Vec::new(), |_| {}, script).await
    }

    async fn run_with(
        &self,
        preset: EgressPreset,
        allow: &[&str],
        binds: Vec<Bind>,
        prepare: impl FnOnce(&HostPlaces),
        script: &str,
    ) -> Ran {
        let allow = allow.iter().map(|&entry| entry.to_owned()).collect();
        let id = made::sandbox(&*self.store, sunaba_types::Egress { preset, allow }).await.id;
        let provider = &self.host.provider;
        let places = provider.create(&id, &CreateRequest::default()).await.unwrap().here().unwrap();
        prepare(&places);
        let door = self.open(&id, &places.door_dir);
        let command = vec!["/bin/bash".to_owned(), "-c".to_owned(), script.to_owned()];
        provider
            .start(&id, StartRequest { env: proxied(), binds, command, ..StartRequest::default() })
            .await
            .unwrap();
        let exit = timeout(LONG, provider.wait(&id)).await.expect("it ends").unwrap();
        let output = provider.output(&id, 0, 4 << 20).await.unwrap();
        provider.delete(&id).await.unwrap();
        door.abort();
        self.egress.closed(&id).await;
        let output = String::from_utf8_lossy(&output).into_owned();
        Ran { code: exit.code, output, events: made::decisions(&*self.store, &id).await }
    }

    /// Listens for a sandbox as the server does.
    fn open(&self, id: &SandboxId, door_dir: &Path) -> JoinHandle<()> {
        let socket = door_dir.join(EGRESS_SOCKET);
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        let (egress, id) = (self.egress.clone(), id.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (egress, id) = (egress.clone(), id.clone());
                tokio::spawn(async move { egress.serve(id, stream).await });
            }
        })
    }
}

/// The variables that every sandbox gets, and nothing else that speaks of a network.
fn proxied() -> BTreeMap<String, String> {
    let proxy = format!("http://{PROXY_ADDRESS}");
    let mut env = BTreeMap::from([
        ("HOME".to_owned(), "/home/agent".to_owned()),
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("NO_PROXY".to_owned(), "127.0.0.1,localhost".to_owned()),
        ("no_proxy".to_owned(), "127.0.0.1,localhost".to_owned()),
    ]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        env.insert(name.to_owned(), proxy.clone());
    }
    env
}

/// Whether the host has a program where a sandbox sees it. Says what is left out otherwise.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
fn has(program: &str) -> bool {
    let found = ["/usr/bin", "/usr/local/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        println!("left out: {program} is not installed in /usr");
    }
    found
}

use trial::put;
