//! The bridge between a client inside and a server that comes and goes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_worker::bridge;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use crate::support::PATIENCE;

/// A bridge on a free port, and the door it leads to.
struct Bridge {
    address: SocketAddr,
    door: PathBuf,
    _dir: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn bridge(hold: Duration) -> Bridge {
    let dir = tempfile::tempdir().unwrap();
    let door = dir.path().join("gateway.sock");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let way = std::sync::Arc::new(bridge::Sockets::beside(door.clone()));
    let task =
        tokio::spawn(async move { bridge::serve(listener, way, bridge::Line::Gateway, hold).await.unwrap() });
    Bridge { address, door, _dir: dir, task }
}

fn open(door: &Path) -> UnixListener {
    let _ = std::fs::remove_file(door);
    UnixListener::bind(door).unwrap()
}

async fn accept(listener: &UnixListener) -> UnixStream {
    timeout(PATIENCE, listener.accept()).await.expect("the bridge comes").unwrap().0
}

async fn read_exactly(stream: &mut (impl tokio::io::AsyncRead + Unpin), expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("it comes").unwrap();
    assert_eq!(bytes, expected);
}

#[tokio::test]
async fn requests_and_answers_pass_in_turn() {
    let bridge = bridge(PATIENCE);
    let listener = open(&bridge.door);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"one").await.unwrap();
    let mut server = accept(&listener).await;
    for (request, answer) in [(b"one", b"ONE"), (b"two", b"TWO")] {
        if request == b"two" {
            client.write_all(request).await.unwrap();
        }
        read_exactly(&mut server, request).await;
        server.write_all(answer).await.unwrap();
        read_exactly(&mut client, answer).await;
    }
    drop(server);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "an answered connection ends with the server's");
}

#[tokio::test]
async fn a_connection_is_held_until_there_is_a_server() {
    let bridge = bridge(PATIENCE);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"early").await.unwrap();
    assert!(
        timeout(Duration::from_millis(200), client.read(&mut [0; 8])).await.is_err(),
        "neither answer nor error"
    );
    let listener = open(&bridge.door);
    let mut server = accept(&listener).await;
    read_exactly(&mut server, b"early").await;
    server.write_all(b"late").await.unwrap();
    read_exactly(&mut client, b"late").await;
}

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_gives_one_good_answer() {
    let bridge = bridge(PATIENCE);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    let first = open(&bridge.door);
    client.write_all(b"GET / half").await.unwrap();
    let mut dying = accept(&first).await;
    read_exactly(&mut dying, b"GET / half").await;
    drop((dying, first));
    client.write_all(b" and the rest").await.unwrap();
    let second = open(&bridge.door);
    let mut server = accept(&second).await;
    read_exactly(&mut server, b"GET / half and the rest").await;
    server.write_all(b"200 once").await.unwrap();
    read_exactly(&mut client, b"200 once").await;
    drop(server);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "one answer, not two");
}

#[tokio::test]
async fn the_second_request_of_a_connection_survives_a_restart_too() {
    let bridge = bridge(PATIENCE);
    let first = open(&bridge.door);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"first").await.unwrap();
    let mut server = accept(&first).await;
    read_exactly(&mut server, b"first").await;
    server.write_all(b"answer").await.unwrap();
    read_exactly(&mut client, b"answer").await;
    client.write_all(b"second").await.unwrap();
    read_exactly(&mut server, b"second").await;
    drop((server, first));
    let second = open(&bridge.door);
    let mut server = accept(&second).await;
    read_exactly(&mut server, b"second").await;
    server.write_all(b"fine").await.unwrap();
    read_exactly(&mut client, b"fine").await;
}

#[tokio::test]
async fn an_answer_that_began_is_not_begun_again() {
    let bridge = bridge(PATIENCE);
    let listener = open(&bridge.door);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"ask").await.unwrap();
    let mut server = accept(&listener).await;
    read_exactly(&mut server, b"ask").await;
    server.write_all(b"half an ans").await.unwrap();
    read_exactly(&mut client, b"half an ans").await;
    drop(server);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "the client sees that it is cut");
    assert!(timeout(Duration::from_millis(200), listener.accept()).await.is_err(), "and nobody asks again");
}

#[tokio::test]
async fn nobody_asks_for_a_client_that_left() {
    let bridge = bridge(PATIENCE);
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"ask").await.unwrap();
    let first = open(&bridge.door);
    let mut server = accept(&first).await;
    read_exactly(&mut server, b"ask").await;
    drop(first);
    std::fs::remove_file(&bridge.door).unwrap();
    drop(server);
    drop(client);
    let second = open(&bridge.door);
    let asked = timeout(Duration::from_millis(700), second.accept()).await;
    if let Ok(Ok((mut server, _))) = asked {
        // It may have come in the instant before it saw the client leave; then it ends at once.
        let mut all = Vec::new();
        timeout(PATIENCE, server.read_to_end(&mut all)).await.expect("ends").unwrap();
    }
}

#[tokio::test]
async fn a_client_held_in_vain_is_told() {
    let bridge = bridge(Duration::from_millis(300));
    let mut client = TcpStream::connect(bridge.address).await.unwrap();
    client.write_all(b"ask").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, client.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn large_bodies_pass_both_ways_at_once() {
    let bridge = bridge(PATIENCE);
    let listener = open(&bridge.door);
    let client = TcpStream::connect(bridge.address).await.unwrap();
    let (mut reader, mut writer) = client.into_split();
    let size = 3 << 20;
    let sending = tokio::spawn(async move { writer.write_all(&vec![7; size]).await.map(|()| writer) });
    let server = accept(&listener).await;
    let (mut server_reader, mut server_writer) = server.into_split();
    let answering =
        tokio::spawn(async move { server_writer.write_all(&vec![9; size]).await.map(|()| server_writer) });
    let mut got = vec![0; size];
    timeout(PATIENCE, server_reader.read_exact(&mut got)).await.unwrap().unwrap();
    assert!(got.iter().all(|byte| *byte == 7));
    timeout(PATIENCE, reader.read_exact(&mut got)).await.unwrap().unwrap();
    assert!(got.iter().all(|byte| *byte == 9));
    drop((sending.await.unwrap().unwrap(), answering.await.unwrap().unwrap()));
}

#[tokio::test]
async fn the_egress_line_gives_up_early_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let way = std::sync::Arc::new(bridge::Sockets::beside(dir.path().join("gateway.sock")));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hold = Duration::from_millis(100);
    let task = tokio::spawn(bridge::serve(listener, way, bridge::Line::Egress, hold));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, client.read_to_string(&mut answer)).await.expect("an answer").unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("its server is away"), "{answer}");

    let door = open(&dir.path().join("egress.sock"));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"POST http://example.org/ HTTP/1.1\r\n\r\n").await.unwrap();
    let mut server = accept(&door).await;
    read_exactly(&mut server, b"POST http://example.org/ HTTP/1.1\r\n\r\n").await;
    drop(server);
    let ended = timeout(PATIENCE, client.read(&mut [0; 8])).await.expect("no second try");
    assert!(matches!(ended, Ok(0) | Err(_)), "a POST is not made twice");
    task.abort();
}
