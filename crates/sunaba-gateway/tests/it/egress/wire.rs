//! What passes through, and what is not even read.

use super::*;

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_their_end() {
    let address = echo().await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let mut stream = proxy.connect();
    // What comes together with the request belongs to the tunnel.
    stream.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\nearly").as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    reads(&mut stream, b"early").await;
    let sent: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let (mut from, mut to) = tokio::io::split(stream);
    let bytes = sent.clone();
    let writing = tokio::spawn(async move {
        to.write_all(&bytes).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    timeout(PATIENCE, from.read_to_end(&mut back)).await.expect("the end passes through").unwrap();
    writing.await.unwrap();
    assert!(back == sent, "every byte comes back");
    proxy.egress.closed(&proxy.sandbox.id).await;
    let last = proxy.events().await.pop().unwrap();
    assert_eq!((&last["sent_bytes"], &last["received_bytes"]), (&(8_000_005).into(), &(8_000_005).into()));
}

#[tokio::test]
async fn what_belongs_to_the_connection_stays_here() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close, X-Theirs\r\nX-Theirs: 1\r\nProxy-Authenticate: Basic\r\n\
                  X-Kept: yes\r\nContent-Length: 0\r\n\r\n";
    let (address, heard) = outside(answer).await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let request = format!(
        "GET http://{address}/ HTTP/1.1\r\nHost: elsewhere.test\r\nProxy-Authorization: Basic c2VjcmV0\r\n\
         Connection: close, X-Own\r\nX-Own: 1\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: trailers\r\n\
         X-Passed: Yes\r\n\r\n"
    );
    let answer = proxy.say(&request).await.to_lowercase();
    assert!(
        answer.contains("x-kept: yes") && !answer.contains("x-theirs") && !answer.contains("proxy-"),
        "{answer}"
    );
    let heard = heard.lock().unwrap()[0].clone();
    assert!(heard.contains("X-Passed: Yes"), "spelled as it was: {heard}");
    assert!(
        heard.to_lowercase().contains(&format!("host: {address}\r\n")),
        "the URL names the host: {heard}"
    );
    for absent in ["elsewhere.test", "c2VjcmV0", "X-Own", "Proxy-", "Upgrade", "TE:"] {
        assert!(!heard.contains(absent), "{absent}: {heard}");
    }
}

#[tokio::test]
async fn bodies_stream_in_both_directions() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let mut client = proxy.connect();
    let head = format!("POST http://{address}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(b"5\r\nfirst\r\n").await.unwrap();
    let (mut server, _) = timeout(PATIENCE, listener.accept()).await.expect("it is dialled").unwrap();
    read_head(&mut server).await;
    reads(&mut server, b"5\r\nfirst\r\n").await;
    client.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.unwrap();
    reads(&mut server, b"6\r\nsecond\r\n0\r\n\r\n").await;
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart").await.unwrap();
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    reads(&mut client, b"part").await;
    server.write_all(b"done").await.unwrap();
    reads(&mut client, b"done").await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_passed_off_as_whole() {
    let (address, _) = outside("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this").await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let mut client = proxy.connect();
    client.write_all(format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    assert!(read_head(&mut client).await.to_lowercase().contains("content-length: 100"));
    let mut body = Vec::new();
    let _ = timeout(PATIENCE, client.read_to_end(&mut body)).await.expect("the connection ends");
    assert_eq!(body, b"only this");
}

#[tokio::test]
async fn what_is_no_request_to_a_proxy_is_answered_in_words() {
    let (address, heard) = outside("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let proxy = Proxy::new(EgressPreset::Open, &[&address]).await;
    let big =
        format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\nX-Big: {}\r\n\r\n", "x".repeat(40 * 1024));
    let many = format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(200));
    for (request, status, words) in [
        (
            "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n".to_owned(),
            400,
            "this is an HTTP proxy",
        ),
        (format!("GET https://{address}/ HTTP/1.1\r\nConnection: close\r\n\r\n"), 400, "send CONNECT"),
        (format!("GET ftp://{address}/ HTTP/1.1\r\nConnection: close\r\n\r\n"), 400, "only http URLs"),
        ("CONNECT example.org HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 400, "needs a port"),
        ("CONNECT example.org:0 HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 400, "from 1 to 65535"),
        (format!("CONNECT user:pw@{address} HTTP/1.1\r\nConnection: close\r\n\r\n"), 400, "leave user"),
        (
            format!("GET http://example.org@{address}/ HTTP/1.1\r\nConnection: close\r\n\r\n"),
            400,
            "leave user",
        ),
        (
            format!(
                "GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\nHost: evil\r\nConnection: close\r\n\r\n"
            ),
            400,
            "one Host",
        ),
        (
            format!("POST http://{address}/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            400,
            "",
        ),
        (format!("GET http://{address}/a b HTTP/1.1\r\n\r\n"), 400, ""),
        (format!("GET http://{address}/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n"), 400, ""),
        (format!("GET http://{address}/ HTTP/1.1\r\nX : a\r\n\r\n"), 400, ""),
        ("\u{16}\u{3}\u{1} tls\r\n\r\n".to_owned(), 400, ""),
        (big, 431, ""),
        (many, 431, ""),
    ] {
        let shown: String = request.chars().take(80).collect();
        println!("{shown:?}");
        let answer = proxy.say(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown:?}: {answer}");
        assert!(answer.contains(words), "{shown:?}: {answer}");
    }
    assert!(heard.lock().unwrap().is_empty(), "nothing of this went out");
    assert!(proxy.events().await.is_empty());
}

#[tokio::test]
async fn no_second_request_is_smuggled() {
    let (address, heard) = outside("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let hidden = "GET http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let request = format!(
        "POST http://{address}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{hidden}",
        hidden.len()
    );
    let answer = proxy.say(&request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(heard.lock().unwrap().len(), 1, "a body stays a body");
    // Two requests on one connection are two decisions.
    let two = format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n{hidden}");
    let answer = proxy.say(&two).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 403"), "{answer}");
    // A length beside chunks is not passed on: the other side could believe it.
    let both = format!(
        "POST http://{address}/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
         0\r\n\r\n"
    );
    assert!(proxy.say(&both).await.starts_with("HTTP/1.1 200"));
    let heard = heard.lock().unwrap().last().unwrap().to_lowercase();
    assert!(heard.contains("transfer-encoding: chunked") && !heard.contains("content-length"), "{heard}");
}

#[tokio::test]
async fn who_dawdles_is_cut_off() {
    let address = echo().await;
    let quick = |settings: &mut EgressSettings| {
        settings.head_timeout = Duration::from_millis(300);
        settings.idle_timeout = Duration::from_millis(300);
    };
    let proxy = Proxy::with(EgressPreset::None, &[&address], "127.0.0.1", quick).await;
    let mut slow = proxy.connect();
    let dripping = async {
        for byte in b"CONNECT example.org:443 HTTP/1.1\r\nX-Drip: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
            if slow.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        ends(&mut slow).await
    };
    assert!(dripping.await < Duration::from_secs(2), "a head in drops is not waited for");

    let mut tunnel = proxy.tunnel(&address).await;
    for _ in 0..6 {
        sleep(Duration::from_millis(100)).await;
        tunnel.write_all(b"x").await.unwrap();
        reads(&mut tunnel, b"x").await;
    }
    assert!(ends(&mut tunnel).await < Duration::from_secs(2), "a tunnel that carries nothing ends");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_a_bad_gateway_and_an_event_with_its_error() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let answer = proxy.connect_refused(&address).await;
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("is allowed, but connecting failed"),
        "{answer}"
    );
    let events = proxy.events().await;
    assert_eq!(events[0]["decision"], "allowed");
    assert!(events[0]["error"].as_str().unwrap().contains("refused"), "{events:?}");
}

#[tokio::test]
async fn dropping_the_stream_ends_what_it_began() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    for request in [
        format!("CONNECT {address} HTTP/1.1\r\n\r\n"),
        format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    ] {
        let (mut near, far) = tokio::io::duplex(4096);
        let (egress, id) = (proxy.egress.clone(), proxy.sandbox.id.clone());
        let serving = tokio::spawn(async move { egress.serve(id, far).await });
        near.write_all(request.as_bytes()).await.unwrap();
        let (mut server, _) = timeout(PATIENCE, listener.accept()).await.expect("it is dialled").unwrap();
        if request.starts_with("GET") {
            read_head(&mut server).await;
        } else {
            read_head(&mut near).await;
        }
        serving.abort();
        ends(&mut server).await;
    }
}

#[tokio::test]
async fn a_plain_tcp_client_is_served_alike() {
    let (address, _) = outside("HTTP/1.1 204 No Content\r\n\r\n").await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (egress, id) = (proxy.egress.clone(), proxy.sandbox.id.clone());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        egress.serve(id, stream).await;
    });
    let mut client = TcpStream::connect(at).await.unwrap();
    let request = format!("HEAD http://{address}/ HTTP/1.0\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut client).await.contains(" 204 "));
}
