//! The bridge and a real server, with nothing but one TCP connection between them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use futures::StreamExt as _;
use sunaba_server::{BoxedStream, Doors, StreamHandler};
use sunaba_testkit::{Client, Setup, TestApp, Work, within};
use sunaba_types::SandboxId;
use sunaba_worker::bridge::{self, Line, Tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::support::PATIENCE;

/// A server whose tunnels lead to its doors.
struct Server {
    app: TestApp,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Server {
    async fn start(setup: Setup) -> Self {
        Self::of(setup.start().await, "127.0.0.1:0").await
    }

    /// Serves a test server on one more address, which can be taken up again by the next one.
    async fn of(app: TestApp, address: &str) -> Self {
        let stop = CancellationToken::new();
        let doors = Doors::new(app.server.clone(), stop.clone()).with_egress(Arc::new(Upper));
        app.state.tunnels.lead_to(doors);
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(sunaba_server::serve(listener, app.server.clone(), stop.clone()));
        Self { app, address, stop }
    }

    fn tunnel_url(&self, token: &str) -> String {
        format!("http://{}/w/{token}/tunnel", self.address)
    }
}

/// An egress proxy that says everything louder.
#[derive(Debug)]
struct Upper;

#[async_trait::async_trait]
impl StreamHandler for Upper {
    async fn handle(&self, _: SandboxId, mut stream: BoxedStream) {
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            buffer[..length].make_ascii_uppercase();
            if stream.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    async fn closed(&self, _: &SandboxId) {}

    async fn drained(&self) {}
}

/// A bridge inside a sandbox, without the sandbox.
struct Inside {
    gateway: SocketAddr,
    egress: SocketAddr,
    tasks: tokio::task::JoinSet<()>,
}

fn inside(url: &str) -> Inside {
    let way = Arc::new(Tunnel::keep(url).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    let mut serve = |line| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::clone(&way);
        tasks.spawn(async move { bridge::serve(listener, way, line, PATIENCE).await.unwrap() });
        address
    };
    let (gateway, egress) = (serve(Line::Gateway), serve(Line::Egress));
    Inside { gateway, egress, tasks }
}

fn client(bridge: &Inside, token: Option<String>) -> Client {
    Client::new(format!("http://{}", bridge.gateway), token)
}

fn token(work: &Work) -> String {
    work.worker.token.clone().unwrap()
}

fn echo() -> Router {
    let echo = post(|body: Bytes| async move { body });
    Router::new().route("/echo", echo).layer(axum::extract::DefaultBodyLimit::disable())
}

#[tokio::test]
async fn requests_pass_and_answers_are_not_held_back() {
    let next = Arc::new(Semaphore::new(0));
    let steps = Arc::clone(&next);
    let pieces = move || {
        let steps = Arc::clone(&steps);
        let stream = futures::stream::iter(0..3).then(move |step| {
            let steps = Arc::clone(&steps);
            async move {
                steps.acquire().await.unwrap().forget();
                Ok::<_, std::io::Error>(format!("piece {step}\n"))
            }
        });
        async move { Body::from_stream(stream) }
    };
    let server = Server::start(Setup::default().gateway(echo().route("/pieces", get(pieces)))).await;
    let work = server.app.work("p").await;
    let bridge = inside(&server.tunnel_url(&token(&work)));
    let client = client(&bridge, Some(token(&work)));
    assert!(server.app.state.tunnels.connected(&work.sandbox.id, PATIENCE).await);
    let large = "x".repeat(3 << 20);
    let answer = client.post_raw("/gateway/echo", large.clone()).await;
    assert_eq!((answer.status.as_u16(), answer.text.len()), (200, large.len()));
    let event = serde_json::json!({"event_type": "agent.started"});
    client.post(&work.path("/events"), event).await.expect(200);

    let response = within("the answer begins", async {
        next.add_permits(1);
        client.request(reqwest::Method::GET, "/gateway/pieces").send().await.unwrap()
    });
    let mut body = response.await.bytes_stream();
    for step in 0..3 {
        let piece = within("a piece comes while the next is not made", body.next()).await.unwrap().unwrap();
        assert_eq!(piece, format!("piece {step}\n"));
        next.add_permits(1);
    }

    let mut louder = TcpStream::connect(bridge.egress).await.unwrap();
    louder.write_all(b"out").await.unwrap();
    let mut heard = [0; 3];
    within("the egress proxy answers", louder.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"OUT");
}

#[tokio::test]
async fn a_hundred_at_once_pass_and_one_that_is_not_read_stops_nobody() {
    let arrived = Arc::new(Semaphore::new(0));
    let (all, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let together = {
        let (all, count, arrived) = (Arc::clone(&all), Arc::clone(&count), Arc::clone(&arrived));
        move || async move {
            let waiting = all.notified();
            arrived.add_permits(1);
            if count.fetch_add(1, Ordering::SeqCst) + 1 == 100 {
                all.notify_waiters();
            } else {
                waiting.await;
            }
            "together"
        }
    };
    let flood = || async { Body::from(vec![b'x'; 32 << 20]) };
    let gateway = echo().route("/together", get(together)).route("/flood", get(flood));
    let server = Server::start(Setup::default().gateway(gateway)).await;
    let work = server.app.work("p").await;
    let bridge = inside(&server.tunnel_url(&token(&work)));
    let client = client(&bridge, Some(token(&work)));
    // Asked for, and then not read.
    let flooded = within("a flood begins", client.request(reqwest::Method::GET, "/gateway/flood").send());
    let flooded = flooded.await.unwrap();
    let answers = futures::future::join_all((0..100).map(|_| client.get("/gateway/together"))).await;
    assert!(answers.iter().all(|answer| answer.text == "together"));
    assert_eq!(arrived.available_permits(), 100);
    let whole = within("the flood is still whole", flooded.bytes()).await.unwrap();
    assert_eq!(whole.len(), 32 << 20);
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    let server = Server::start(Setup::default().gateway(echo())).await;
    let work = server.app.work("p").await;
    let bridge = inside(&server.tunnel_url(&token(&work)));
    let client = client(&bridge, Some(token(&work)));
    assert_eq!(client.post_raw("/gateway/echo", "one").await.text, "one");
    let address = server.address.to_string();
    server.stop.cancel();
    let dir = server.app.stop().await;
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.post_raw("/gateway/echo", "held").await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!asking.is_finished(), "neither answer nor error while the server is away");
    let server = Server::of(Setup::default().gateway(echo()).start_in(dir).await, &address).await;
    assert_eq!(within("the held request is answered", asking).await.unwrap().text, "held");
    assert!(server.app.state.tunnels.is_up(&work.sandbox.id));
}

/// Carries TCP to an address, until it is cut.
async fn cable(to: SocketAddr) -> (SocketAddr, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Arc::new(Notify::new());
    let cutting = Arc::clone(&cut);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let cut = Arc::clone(&cutting);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    () = cut.notified() => {}
                }
            });
        }
    });
    (address, cut)
}

#[tokio::test]
async fn a_request_without_an_answer_is_sent_again_when_the_connection_broke() {
    let asked = Arc::new(Semaphore::new(0));
    let count = Arc::new(AtomicUsize::new(0));
    let never_first = {
        let (asked, count) = (Arc::clone(&asked), Arc::clone(&count));
        move |body: Bytes| async move {
            asked.add_permits(1);
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                std::future::pending::<()>().await;
            }
            body
        }
    };
    let gateway = Router::new().route("/never-first", post(never_first));
    let server = Server::start(Setup::default().gateway(gateway)).await;
    let work = server.app.work("p").await;
    let (address, cut) = cable(server.address).await;
    let bridge = inside(&format!("http://{address}/w/{}/tunnel", token(&work)));
    let client = client(&bridge, Some(token(&work)));
    let asking = tokio::spawn(async move { client.post_raw("/gateway/never-first", "again").await });
    within("the server is asked", asked.acquire()).await.unwrap().forget();
    cut.notify_waiters();
    assert_eq!(within("the second try is answered", asking).await.unwrap().text, "again");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_tunnel_is_its_own_sandbox_s_and_nobody_else_s() {
    let server = Server::start(Setup::default().gateway(echo())).await;
    let (own, other) = (server.app.work("own").await, server.app.work("other").await);
    let bridge = inside(&server.tunnel_url(&token(&own)));
    for foreign in [other.worker.token.clone(), server.app.admin.token.clone()] {
        client(&bridge, foreign).post_raw("/gateway/echo", "x").await.expect_problem(403, "wrong_door");
    }
    client(&bridge, None).post_raw("/gateway/echo", "x").await.expect_problem(401, "unauthorized");
    assert!(server.app.state.tunnels.is_up(&own.sandbox.id));
    assert!(!server.app.state.tunnels.connected(&other.sandbox.id, Duration::from_millis(50)).await);

    let upgrade = |who: &Client| {
        who.request(reqwest::Method::GET, "/tunnel")
            .header("connection", "upgrade")
            .header("upgrade", "sunaba-tunnel")
    };
    let admin = &server.app.admin;
    admin.send(upgrade(admin)).await.expect_problem(403, "sandboxes_only");
    let nobody = server.app.anonymous();
    nobody.send(upgrade(&nobody)).await.expect_problem(401, "unauthorized");
    own.worker.get("/tunnel").await.expect_problem(426, "upgrade_required");
    let wrong = format!("/w/{}x/tunnel", token(&own));
    let asked = nobody.request(reqwest::Method::GET, &wrong).header("upgrade", "sunaba-tunnel");
    nobody.send(asked).await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn a_newer_tunnel_takes_the_place_of_the_older_and_closing_ends_it() {
    let server = Server::start(Setup::default().gateway(echo())).await;
    let work = server.app.work("p").await;
    let (address, cut) = cable(server.address).await;
    let mut first = inside(&format!("http://{address}/w/{}/tunnel", token(&work)));
    let tunnels = &server.app.state.tunnels;
    assert!(tunnels.connected(&work.sandbox.id, PATIENCE).await);
    first.tasks.abort_all();
    let second = inside(&server.tunnel_url(&token(&work)));
    let client = client(&second, Some(token(&work)));
    assert_eq!(client.post_raw("/gateway/echo", "second").await.text, "second");
    cut.notify_waiters();
    assert_eq!(client.post_raw("/gateway/echo", "still").await.text, "still");
    tunnels.close(&work.sandbox.id);
    assert_eq!(client.post_raw("/gateway/echo", "anew").await.text, "anew", "the bridge comes back");
}
