//! What stays closed, whatever a program tries.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use super::outside::Outside;
use super::*;

#[tokio::test]
async fn with_preset_none_nothing_is_reached() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.put("file.txt", "hello outside\n");
    let script = format!(
        "for url in {}/file.txt http://pypi.org/ http://example.org/ http://203.0.113.1/; do
           curl -sS -o body -w '%{{http_code}} ' $url; grep -h ^Rule body
         done",
        outside.url()
    );
    let ran = world.run(EgressPreset::None, &[], &script).await;
    assert_eq!(ran.output, "403 Rule: preset none\n".repeat(4), "{ran:#?}");
    assert!(ran.events.iter().all(|event| event["decision"] == "refused"), "{ran:#?}");
}

/// An address of this host that is not loopback, if there is one.
fn own_address() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.1:9").ok()?;
    socket.local_addr().ok().filter(|address| !address.ip().is_loopback())
}

#[tokio::test]
async fn a_program_that_ignores_the_proxy_has_no_route() {
    let world = World::new().await;
    let mut targets = vec!["tcp/1.1.1.1/443".to_owned(), "udp/1.1.1.1/53".to_owned()];
    let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut victims = vec![loopback];
    match own_address() {
        Some(address) => victims.push(TcpListener::bind((address.ip(), 0)).unwrap()),
        None => println!("left out: this host has only loopback"),
    }
    for victim in &victims {
        let at = victim.local_addr().unwrap();
        TcpStream::connect_timeout(&at, Duration::from_secs(5)).expect("outside it is reached");
        targets.push(format!("tcp/{}/{}", at.ip(), at.port()));
    }
    let script = format!(
        "for target in {}; do
           SECONDS=0; if (exec 3<>/dev/$target && echo query >&3) 2>/dev/null; then echo reached $target; fi
           [ $SECONDS -le 2 ] || echo slow $target
         done
         getent hosts example.org && echo resolved
         curl -sS --noproxy '*' -m 5 http://203.0.113.1/ && echo fetched
         /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect((\"2001:db8::1\", 80))' 2>/dev/null && echo six
         echo end",
        targets.join(" ")
    );
    let ran = world.run(EgressPreset::Open, &[], &script).await;
    let said: Vec<&str> = ran.output.lines().filter(|line| !line.starts_with("curl: ")).collect();
    assert_eq!(said, ["end"], "{ran:#?}");
    assert!(ran.events.is_empty(), "nothing of this came by the proxy: {ran:#?}");
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_spelling_from_inside() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.put("file.txt", "hello outside\n");
    let port = outside.port;
    // Spelled by hand: curl itself would make some of these plain.
    let script = format!(
        "ask() {{ exec 3<>/dev/tcp/127.0.0.1/3128; printf \"$1\" >&3; head -n 1 <&3 | cut -d' ' -f2 | tr '\\n' ' '; exec 3>&-; }}
         for host in 127.0.0.1 localhost 10.0.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 inside.test \
           2130706433 0x7f000001 0x7f.1 0177.0.0.1 127.1 '[::1]' '[::ffff:127.0.0.1]' '[::ffff:7f00:1]' '[fe80::1]' \
           '[fd00:ec2::254]' '[64:ff9b::a00:1]' '[2002:7f00:1::]'; do
           ask \"CONNECT $host:80 HTTP/1.1\\r\\nHost: $host\\r\\n\\r\\n\"
           ask \"GET http://$host/ HTTP/1.1\\r\\nHost: $host\\r\\nConnection: close\\r\\n\\r\\n\"
         done; echo
         ask \"CONNECT registry.test:22 HTTP/1.1\\r\\n\\r\\n\"; ask \"CONNECT example.org:25 HTTP/1.1\\r\\n\\r\\n\"; echo
         ask \"GET / HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n\"
         ask \"GET http://u:p@registry.test:{port}/file.txt HTTP/1.1\\r\\n\\r\\n\"
         ask \"GET http://registry.test:{port}/file.txt HTTP/1.1\\r\\nHost: a\\r\\nHost: b\\r\\n\\r\\n\"; echo
         curl -sS -L -o /dev/null -w '%{{http_code}} %{{num_redirects}}\\n' {url}/redirect/169.254.169.254/latest/
         curl -sS -L -o /dev/null -w '%{{http_code}} %{{num_redirects}}\\n' {url}/redirect/inside.test/",
        url = outside.url()
    );
    let ran = world.run(EgressPreset::Open, &[&outside.host()], &script).await;
    let lines: Vec<&str> = ran.output.lines().map(str::trim).collect();
    let all = ["403"; 40].join(" ");
    assert_eq!(lines, [all.as_str(), "403 403", "400 400 400", "403 1", "403 1"], "{ran:#?}");
    let rules = ran.decisions("inside.test");
    assert_eq!(rules[0].1, "address 10.0.0.1 is private");
    assert_eq!(ran.decisions("169.254.169.254")[0].1, "address 169.254.169.254 is link-local");
}

#[tokio::test]
async fn one_sandboxs_door_is_not_anothers() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.put("file.txt", "hello outside\n");
    let script =
        format!("curl -s -o /dev/null -w '%{{http_code}}' {}/file.txt; ls /run/sunaba", outside.url());
    let (host, allowed) =
        (outside.host(), async |allow: &[&str]| world.run(EgressPreset::None, allow, &script).await);
    let one = [host.as_str()];
    let (open, shut) = tokio::join!(allowed(&one), allowed(&[]));
    assert!(open.output.starts_with("200") && shut.output.starts_with("403"), "{open:?} {shut:?}");
    assert!(open.output.ends_with("egress.sock\n"), "its own door only: {open:?}");
}
