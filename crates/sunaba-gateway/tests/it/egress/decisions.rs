//! Who is let out, to where.

use serde_json::json;

use super::*;

#[tokio::test]
async fn an_allowed_host_is_reached_and_another_hears_the_rule() {
    let (address, heard) = outside("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    let answer = proxy.get(&format!("http://{address}/a?b=c")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nhi"), "{answer}");
    let heard = heard.lock().unwrap()[0].clone();
    assert!(heard.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{heard}");
    assert!(heard.to_lowercase().contains(&format!("\r\nhost: {address}\r\n")), "{heard}");

    let rule = "preset none, and not in the one entry of allow";
    for answer in [proxy.get("http://example.org/").await, proxy.connect_refused("example.org:443").await] {
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains(&format!("\r\nx-sunaba-rule: {rule}\r\n")), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(body.starts_with("Sunaba refused egress to example.org:"), "{body}");
        assert!(body.contains(rule) && body.contains("sunaba project egress"), "{body}");
    }
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let refused = |port, method: &str| json!({"host": "example.org", "port": port, "method": method, "decision": "refused", "rule": rule, "count": 1});
    let allowed = json!({
        "host": "127.0.0.1", "port": port, "method": "GET", "decision": "allowed",
        "rule": format!("allow[0]: {address}"), "address": "127.0.0.1", "count": 1,
    });
    assert_eq!(proxy.events().await, [allowed, refused(80, "GET"), refused(443, "connect")]);
    assert_eq!(proxy.names.asked.load(Ordering::SeqCst), 0, "a refused name is not even resolved");
}

#[tokio::test]
async fn with_preset_none_everything_is_refused() {
    let proxy = Proxy::new(EgressPreset::None, &[]).await;
    for target in ["example.org:443", "pypi.org:443", "127.0.0.1:80", "localhost:80", "[::1]:80"] {
        let answer = proxy.connect_refused(target).await;
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("x-sunaba-rule: preset none\r\n"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_spelling() {
    let proxy = Proxy::with(EgressPreset::Open, &[], "", |_| {}).await;
    for (target, rule) in [
        ("127.0.0.1", "address 127.0.0.1 is loopback"),
        ("10.0.0.1", "address 10.0.0.1 is private"),
        ("192.168.0.1", "address 192.168.0.1 is private"),
        ("169.254.169.254", "address 169.254.169.254 is link-local"),
        ("168.63.129.16", "address 168.63.129.16 is a metadata service"),
        ("100.100.100.200", "address 100.100.100.200 is shared"),
        ("0.0.0.0", "address 0.0.0.0 is unspecified"),
        ("[::1]", "address ::1 is loopback"),
        ("[::]", "address :: is unspecified"),
        ("[::ffff:10.0.0.1]", "address 10.0.0.1 is private"),
        ("[::ffff:a9fe:a9fe]", "address 169.254.169.254 is link-local"),
        ("[fe80::1]", "address fe80::1 is link-local"),
        ("[fd00:ec2::254]", "address fd00:ec2::254 is private"),
        ("[64:ff9b::7f00:1]", "address 64:ff9b::7f00:1 is loopback"),
        ("2130706433", "not a host: an address is written in full"),
        ("0x7f000001", "not a host: an address is written in full"),
        ("0x7f.1", "not a host: an address is written in full"),
        ("0177.0.0.1", "not a host: an address is written in full"),
        ("127.1", "not a host: an address is written in full"),
        ("127.0.0.1.", "address 127.0.0.1 is loopback"),
    ] {
        for answer in [
            proxy.connect_refused(&format!("{target}:80")).await,
            proxy.get(&format!("http://{target}/latest/meta-data/")).await,
        ] {
            assert!(answer.starts_with("HTTP/1.1 403"), "{target}: {answer}");
            assert!(answer.contains(&format!("x-sunaba-rule: {rule}")), "{target}: {answer}");
        }
    }
    let events = proxy.events().await;
    assert!(events.iter().all(|event| event["decision"] == "refused"), "{events:#?}");
    let metadata = events.iter().find(|event| event["host"] == "169.254.169.254").unwrap();
    assert_eq!(metadata["address"], "169.254.169.254");
}

#[tokio::test]
async fn a_name_is_judged_by_every_address_and_resolved_once() {
    let (address, _) = outside("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let port = address.rsplit(':').next().unwrap();
    let allow = format!("*.test:{port}");
    let proxy = Proxy::with(EgressPreset::None, &[&allow], "good.test,turning.test", |_| {}).await;
    proxy.names.set("inside.test", &[&["10.1.2.3"]]);
    proxy.names.set("half.test", &[&["203.0.113.7", "192.168.7.7"]]);
    proxy.names.set("good.test", &[&["127.0.0.1"]]);
    proxy.names.set("rebound.test", &[&["203.0.113.1"], &["127.0.0.1"]]);
    for (host, rule) in
        [("inside.test", "address 10.1.2.3 is private"), ("half.test", "address 192.168.7.7 is private")]
    {
        let answer = proxy.connect_refused(&format!("{host}:{port}")).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(rule), "{answer}");
        assert!(answer.contains("egress.private_hosts"), "{answer}");
    }
    let answer = proxy.get(&format!("http://good.test:{port}/")).await;
    assert!(answer.ends_with("hi"), "a private host that the administrator opened: {answer}");
    assert_eq!(proxy.names.asked.load(Ordering::SeqCst), 3, "once a request");
    let missing = proxy.get(&format!("http://missing.test:{port}/")).await;
    assert!(missing.starts_with("HTTP/1.1 502") && missing.contains("does not resolve"), "{missing}");
    let events = proxy.events().await;
    let missing = events.iter().find(|event| event["host"] == "missing.test").unwrap();
    assert_eq!((&missing["decision"], missing["error"].is_string()), (&json!("allowed"), true));
}

#[tokio::test]
async fn a_name_that_changes_between_two_lookups_gains_nothing() {
    let victim = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = victim.local_addr().unwrap().port();
    let quick = |settings: &mut EgressSettings| settings.connect_timeout = Duration::from_millis(300);
    let proxy = Proxy::with(EgressPreset::None, &[&format!("rebound.test:{port}")], "", quick).await;
    // A public address at first; the host's own for whoever asks again.
    proxy.names.set("rebound.test", &[&["203.0.113.1"], &["127.0.0.1"]]);
    let first = proxy.connect_refused(&format!("rebound.test:{port}")).await;
    assert!(first.starts_with("HTTP/1.1 502") || first.starts_with("HTTP/1.1 504"), "{first}");
    assert_eq!(proxy.names.asked.load(Ordering::SeqCst), 1);
    let second = proxy.connect_refused(&format!("rebound.test:{port}")).await;
    assert!(second.starts_with("HTTP/1.1 403") && second.contains("is loopback"), "{second}");
    let reached = timeout(Duration::from_millis(100), victim.accept()).await;
    assert!(reached.is_err(), "nobody may have come");
}

#[tokio::test]
async fn the_systems_own_names_are_no_way_in() {
    let system = |settings: &mut EgressSettings| {
        settings.resolver = Arc::new(sunaba_gateway::SystemResolver::default());
    };
    let proxy = Proxy::with(EgressPreset::Open, &[], "", system).await;
    let answer = proxy.connect_refused("localhost:80").await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("is loopback"), "{answer}");
}

#[tokio::test]
async fn ports_of_mail_and_shells_are_closed_in_every_preset() {
    let proxy = Proxy::new(EgressPreset::Open, &["listed.test"]).await;
    for target in ["example.org:22", "example.org:25", "listed.test:22", "example.org:6379"] {
        let answer = proxy.connect_refused(target).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("is not open"), "{answer}");
    }
}

#[tokio::test]
async fn a_redirect_inwards_is_refused_like_a_request() {
    let (address, _) =
        outside("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n").await;
    let proxy = Proxy::with(EgressPreset::Open, &[&address], "127.0.0.1/32", |_| {}).await;
    let answer = proxy.get(&format!("http://{address}/")).await;
    assert!(answer.starts_with("HTTP/1.1 302"), "the client is told, and asks again: {answer}");
    let answer = proxy.get("http://169.254.169.254/").await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn a_sandbox_that_ended_loses_its_way_out_and_its_open_tunnels() {
    let address = echo().await;
    let quick = |settings: &mut EgressSettings| settings.recheck_interval = Duration::from_millis(100);
    let proxy = Proxy::with(EgressPreset::None, &[&address], "127.0.0.1", quick).await;
    let mut tunnel = proxy.tunnel(&address).await;
    tunnel.write_all(b"alive").await.unwrap();
    reads(&mut tunnel, b"alive").await;
    proxy.cancel().await;
    assert!(ends(&mut tunnel).await < Duration::from_secs(5));
    let answer = proxy.connect_refused(&address).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("this sandbox is cancelled"), "{answer}");
    let stranger = SandboxId::generate();
    let (mut near, far) = tokio::io::duplex(4096);
    let egress = proxy.egress.clone();
    tokio::spawn(async move { egress.serve(stranger, far).await });
    near.write_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(read_head(&mut near).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn a_policy_that_changed_holds_when_the_door_opens_again() {
    let address = echo().await;
    let proxy = Proxy::new(EgressPreset::None, &[]).await;
    assert!(proxy.connect_refused(&address).await.starts_with("HTTP/1.1 403"));
    let egress = Some(sunaba_types::Egress { preset: EgressPreset::None, allow: vec![address.clone()] });
    let change = SandboxChange { egress, ..SandboxChange::default() };
    proxy.store.change_sandbox(&proxy.sandbox.id, change).await.unwrap();
    proxy.egress.closed(&proxy.sandbox.id).await;
    proxy.tunnel(&address).await;
}
