//! A container that shares nothing with the server but a network: volumes, a worker that was sent, a tunnel.

use std::collections::BTreeMap;

use axum::Router;
use axum::routing::post;
use bollard::Docker;
use bollard::models::{NetworkCreateRequest, VolumeListResponse};
use bollard::query_parameters::{InspectNetworkOptions, ListVolumesOptions};
use sunaba_sandbox::{
    CreateRequest, DockerOptions, DockerProvider, Error, ExecRequest, Prepared, Provider as _, StartRequest,
    Status,
};
use sunaba_server::Doors;
use sunaba_testkit::{Setup, TestDaemon};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::PATIENCE;

/// A network of the daemon's, gone with it.
struct Network {
    docker: Docker,
    name: String,
    gateway: String,
}

impl Network {
    async fn make(daemon: &TestDaemon) -> Self {
        let docker = Docker::connect_with_host(&daemon.host).unwrap().negotiate_version().await.unwrap();
        let name = format!("sunaba-test-{}", std::process::id());
        let request = NetworkCreateRequest { name: name.clone(), ..NetworkCreateRequest::default() };
        docker.create_network(request).await.unwrap();
        let seen = docker.inspect_network(&name, None::<InspectNetworkOptions>).await.unwrap();
        let gateway = seen.ipam.unwrap().config.unwrap()[0].gateway.clone().unwrap();
        Self { docker, name, gateway }
    }

    async fn remove(self) {
        self.docker.remove_network(&self.name).await.unwrap();
    }

    async fn volumes(&self) -> Vec<String> {
        let VolumeListResponse { volumes, .. } =
            self.docker.list_volumes(None::<ListVolumesOptions>).await.unwrap();
        volumes.unwrap_or_default().into_iter().map(|volume| volume.name).collect()
    }
}

const ASK: &str = "
import os, urllib.request
request = urllib.request.Request('http://127.0.0.1:3129/gateway/echo', data=b'from far away', method='POST')
request.add_header('Authorization', 'Bearer ' + os.environ['SANDBOX_TOKEN'])
print(urllib.request.urlopen(request, timeout=60).read().decode(), flush=True)
open('/workspace/made', 'w').write('made')
print(os.getuid(), os.access('/opt/sunaba/sunaba-worker', os.W_OK), flush=True)
import time
time.sleep(600)
";

#[tokio::test]
async fn a_container_elsewhere_works_through_its_tunnel() {
    let Some(daemon) = TestDaemon::find("a container on another machine") else { return };
    let network = Network::make(&daemon).await;
    let echo = Router::new().route("/echo", post(|body: String| async move { format!("heard: {body}") }));
    let app = Setup::default().gateway(echo).start().await;
    app.state.tunnels.lead_to(Doors::new(app.server.clone(), CancellationToken::new()));
    let listener = TcpListener::bind((network.gateway.as_str(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(sunaba_server::serve(listener, app.server.clone(), CancellationToken::new()));
    let work = app.work("p").await;
    let (id, token) = (work.sandbox.id.clone(), work.worker.token.clone().unwrap());

    let provider = DockerProvider::new(DockerOptions {
        host: daemon.host.clone(),
        remote: true,
        root: app.path("containers"),
        logs: app.path("logs"),
        worker_program: env!("CARGO_BIN_EXE_sunaba-worker").into(),
        default_image: daemon.image.clone(),
        instance: format!("remote-{}", std::process::id()),
        network: Some(network.name.clone()),
    })
    .unwrap();
    let isolation = provider.isolation().await.unwrap();
    assert!(!isolation.network_closed, "what is open is said to be open");
    assert_eq!(provider.create(&id, &CreateRequest::default()).await.unwrap(), Prepared::Elsewhere);
    let env = BTreeMap::from([
        ("SUNABA_TUNNEL_URL".to_owned(), format!("http://{address}/w/{token}/tunnel")),
        ("SANDBOX_TOKEN".to_owned(), token.clone()),
        ("HOME".to_owned(), "/home/agent".to_owned()),
    ]);
    let command = ["python3", "-c", ASK].map(str::to_owned).to_vec();
    provider.start(&id, StartRequest { env, command, ..StartRequest::default() }).await.unwrap();
    assert!(app.state.tunnels.connected(&id, PATIENCE).await, "it calls back");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let said = loop {
        let said = String::from_utf8(provider.output(&id, 0, 4096).await.unwrap()).unwrap();
        if said.contains("1000 ") {
            break said;
        }
        assert!(tokio::time::Instant::now() < deadline, "it only said {said:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(said.contains("heard: from far away\n") && said.contains("1000 False\n"), "{said}");
    assert!(!said.contains(&token), "the token is in no line: {said}");

    assert_eq!(provider.read_file(&id, "/workspace/made", 100).await.unwrap(), b"made");
    provider.write_file(&id, "/workspace/sent", b"sent", 0o640).await.unwrap();
    let request = ExecRequest {
        command: ["sh", "-c", "cat sent; ln -s /etc/passwd out"].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        input: Vec::new(),
        timeout: PATIENCE,
        output_max: 100,
    };
    assert_eq!(provider.exec(&id, request).await.unwrap().stdout, b"sent");
    let away = provider.read_file(&id, "/workspace/out", 10).await.unwrap_err();
    assert!(matches!(away, Error::BadPath { .. }), "{away}");

    assert_eq!(provider.list().await.unwrap().as_slice(), std::slice::from_ref(&id));
    let own = format!("sunaba-{id}");
    assert_eq!(network.volumes().await.iter().filter(|name| name.starts_with(&own)).count(), 2);
    provider.delete(&id).await.unwrap();
    assert_eq!(provider.status(&id).await.unwrap(), Status::Absent);
    assert!(!network.volumes().await.iter().any(|name| name.starts_with(&own)));
    network.remove().await;
}
