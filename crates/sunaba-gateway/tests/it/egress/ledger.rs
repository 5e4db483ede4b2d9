//! Decisions as events.

use super::*;

#[tokio::test]
async fn repeats_are_counted_and_written_together() {
    let proxy = Proxy::new(EgressPreset::None, &[]).await;
    for _ in 0..5 {
        proxy.connect_refused("example.org:443").await;
    }
    let events = proxy.events().await;
    assert_eq!(events.len(), 1, "{events:#?}");
    proxy.egress.closed(&proxy.sandbox.id).await;
    let events = proxy.events().await;
    assert_eq!((events.len(), &events[1]["count"]), (2, &4.into()), "{events:#?}");
    proxy.egress.closed(&proxy.sandbox.id).await;
    proxy.egress.drained().await;
    assert_eq!(proxy.events().await.len(), 2, "nothing is told twice");
}

#[tokio::test]
async fn repeats_are_written_after_a_while_too() {
    let quick = |settings: &mut EgressSettings| settings.summary_interval = Duration::from_millis(200);
    let proxy = Proxy::with(EgressPreset::None, &[], "", quick).await;
    for _ in 0..3 {
        proxy.connect_refused("example.org:443").await;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counted: u64 = proxy.events().await.iter().map(|event| event["count"].as_u64().unwrap()).sum();
        if counted == 3 {
            break;
        }
        assert!(Instant::now() < deadline, "only {counted}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn ever_new_names_do_not_fill_the_log() {
    let proxy = Proxy::new(EgressPreset::None, &[]).await;
    let mut stream = proxy.connect();
    for number in 0..300 {
        let request = format!("GET http://n{number}.test/ HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await.to_lowercase();
        let (_, rest) = head.split_once("content-length: ").unwrap();
        let length: usize = rest.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
    }
    proxy.egress.drained().await;
    let events = proxy.events().await;
    assert_eq!(events.len(), 258, "256 kinds, the first of the rest, and their sum");
    let counted: u64 = events.iter().map(|event| event["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 300, "every decision is accounted for");
    assert_eq!(events.last().unwrap()["host"], "*");
}

#[tokio::test]
async fn refusals_without_end_do_not_hide_a_host_that_is_reached() {
    let (address, _) = outside("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let proxy = Proxy::new(EgressPreset::None, &[&address]).await;
    for number in 0..300 {
        proxy.connect_refused(&format!("n{number}.test:443")).await;
    }
    assert!(proxy.get(&format!("http://{address}/")).await.ends_with("hi"));
    let events = proxy.events().await;
    let allowed: Vec<_> = events.iter().filter(|event| event["decision"] == "allowed").collect();
    assert_eq!(allowed.len(), 1, "{allowed:#?}");
    assert_eq!(allowed[0]["host"], address.split(':').next().unwrap());
    assert!(events.iter().any(|event| event["host"] == "*" && event["decision"] == "refused"));
}
