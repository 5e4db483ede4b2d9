use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use sunaba_types::{Egress, EgressPreset};

use super::*;

fn policy(preset: EgressPreset, allow: &[&str]) -> Policy {
    Policy::new(&egress(preset, allow)).unwrap()
}

fn egress(preset: EgressPreset, allow: &[&str]) -> Egress {
    Egress { preset, allow: allow.iter().map(|&entry| entry.to_owned()).collect() }
}

fn decide(policy: &Policy, host: &str, port: u16) -> (bool, String) {
    let decision = policy.decide(&Host::parse(host).unwrap(), port);
    (decision.allowed, decision.rule)
}

#[test]
fn the_rule_that_decided_is_named() {
    let none = policy(EgressPreset::None, &[]);
    assert_eq!(decide(&none, "example.org", 443), (false, "preset none".to_owned()));
    let listed = policy(EgressPreset::None, &["example.org", "*.Example.NET.", "host.test:8080"]);
    for (host, port, allowed, rule) in [
        ("example.org", 443, true, "allow[0]: example.org"),
        ("EXAMPLE.org.", 80, true, "allow[0]: example.org"),
        ("a.b.example.net", 443, true, "allow[1]: *.example.net"),
        ("host.test", 8080, true, "allow[2]: host.test:8080"),
        ("example.net", 443, false, "preset none, and not in the 3 entries of allow"),
        ("notexample.net", 443, false, "preset none, and not in the 3 entries of allow"),
        ("example.org.evil.test", 443, false, "preset none, and not in the 3 entries of allow"),
        ("example.org", 22, false, "port 22 is not open: allow[0]: example.org"),
        ("host.test", 443, false, "port 443 is not open: allow[2]: host.test:8080"),
    ] {
        assert_eq!(decide(&listed, host, port), (allowed, rule.to_owned()), "{host}:{port}");
    }
    let registries = policy(EgressPreset::Registries, &[]);
    assert_eq!(decide(&registries, "pypi.org", 443), (true, "preset registries: pypi.org:443".to_owned()));
    assert_eq!(decide(&registries, "github.com", 443), (false, "preset registries".to_owned()));
    let open = policy(EgressPreset::Open, &["git.test:22"]);
    assert_eq!(decide(&open, "anything.test", 443), (true, "preset open".to_owned()));
    assert_eq!(decide(&open, "anything.test", 25), (false, "port 25 is not open: preset open".to_owned()));
    assert_eq!(decide(&open, "git.test", 22), (true, "allow[0]: git.test:22".to_owned()));
}

#[test]
fn a_pattern_is_a_host_and_perhaps_a_port() {
    for (text, shown) in [
        ("example.org", "example.org"),
        ("Example.ORG.:443", "example.org:443"),
        ("*.example.org", "*.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("198.51.100.7:8080", "198.51.100.7:8080"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
    ] {
        assert_eq!(Pattern::parse(text).unwrap().to_string(), shown);
    }
    for text in [
        "",
        "*",
        "*.",
        "*.*.org",
        "a*.org",
        "a.*.org",
        "*.10.0.0.1",
        "https://example.org",
        "example.org/path",
        "user@example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "bücher.example",
        "a..b",
        ".a",
        "10.0.0.0/8",
        "a b",
        "a\r\nb",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "[::1",
        "[fe80::1%eth0]",
        "a\u{0}b",
        "a:b:c",
    ] {
        assert!(Pattern::parse(text).is_err(), "{text:?}");
    }
    let long = format!("{}.org", "a".repeat(64));
    assert_eq!(Host::parse(&long), Err(BadHost::TooLong));
    let error = check(&egress(EgressPreset::Open, &["fine.org", "http://x"])).unwrap_err();
    assert!(error.to_string().starts_with("allow[1]: \"http://x\": write a host only"), "{error}");
    let many = vec!["a.org"; ALLOW_MAX + 1];
    assert!(check(&egress(EgressPreset::None, &many)).is_err());
}

#[test]
fn every_line_of_the_registries_is_read_and_no_code_host_is_among_them() {
    let lines: Vec<&str> =
        include_str!("registries.txt").lines().filter(|line| registries::is_entry(line)).collect();
    assert_eq!(lines.len(), registries().len(), "a line cannot be read");
    assert!(lines.len() > 20);
    let registries = policy(EgressPreset::Registries, &[]);
    for host in
        ["github.com", "codeload.github.com", "objects.githubusercontent.com", "upload.pypi.org", "crates.io"]
    {
        assert!(!decide(&registries, host, 443).0, "{host}");
    }
    for (host, port) in [("index.crates.io", 443), ("registry.npmjs.org", 443), ("de.archive.ubuntu.com", 80)]
    {
        assert!(decide(&registries, host, port).0, "{host}");
    }
    assert!(!decide(&registries, "registry.npmjs.org", 80).0);
}

#[test]
fn what_is_not_public_is_refused_in_every_spelling() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.88.99.1",
        "::",
        "::1",
        "::10.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:a00:1::",
        "2001:0:808:808:0:0:f5ff:fffe",
        "2001:10::1",
        "2001:2::1",
        "100::1",
        "4000::1",
        "2a00:1450::5efe:10.0.0.1",
        "2a00:1450::200:5efe:127.0.0.1",
    ] {
        assert!(!is_public(text.parse().unwrap()), "{text}");
    }
    for text in [
        "1.1.1.1",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "203.0.113.9",
        "198.51.100.1",
        "192.0.2.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "2001:db8::1",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "::ffff:8.8.8.8",
    ] {
        assert!(is_public(text.parse().unwrap()), "{text}");
    }
    assert_eq!(refused_address("10.0.0.1".parse().unwrap()), Some("private"));
}

#[test]
fn private_hosts_are_names_and_networks() {
    let open = PrivateHosts::parse("mirror.corp, *.lan:8080 ,10.1.0.0/16,fd00::/8,".split(',')).unwrap();
    let is_open = |host: &str, port, address: &str| {
        open.open(&Host::parse(host).unwrap(), port, address.parse().unwrap())
    };
    assert!(is_open("mirror.corp", 9, "127.0.0.1"));
    assert!(is_open("a.lan", 8080, "192.168.0.1") && !is_open("a.lan", 80, "192.168.0.1"));
    assert!(is_open("x.test", 443, "10.1.255.255") && !is_open("x.test", 443, "10.2.0.0"));
    assert!(is_open("x.test", 443, "::ffff:10.1.0.1") && is_open("x.test", 443, "fd12::1"));
    assert!(!is_open("x.test", 443, "fe80::1"));
    let everything = PrivateHosts::parse(["0.0.0.0/0"]).unwrap();
    assert!(everything.open(&Host::parse("x").unwrap(), 1, "10.0.0.1".parse().unwrap()));
    assert_eq!(PrivateHosts::parse(["10.0.0.0/33"]).unwrap_err().0, "10.0.0.0/33");
}

#[test]
fn a_repository_only_shrinks() {
    let project = egress(EgressPreset::Registries, &["*.corp.test", "one.test:8080"]);
    for (wanted, left) in [
        (egress(EgressPreset::Open, &[]), egress(EgressPreset::Registries, &["*.corp.test"])),
        (
            egress(EgressPreset::None, &["a.corp.test", "evil.test"]),
            egress(EgressPreset::None, &["a.corp.test"]),
        ),
        (egress(EgressPreset::None, &["*.test:8080"]), egress(EgressPreset::None, &["one.test:8080"])),
        (egress(EgressPreset::None, &["pypi.org"]), egress(EgressPreset::None, &["pypi.org:443"])),
        (egress(EgressPreset::None, &["https://odd"]), egress(EgressPreset::None, &[])),
    ] {
        assert_eq!(shrink(&project, &wanted), left, "{wanted:?}");
    }
}

fn a_host() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a.test",
        "b.a.test",
        "c.b.a.test",
        "test",
        "x.org",
        "pypi.org",
        "index.crates.io",
        "de.archive.ubuntu.com",
        "archive.ubuntu.com",
        "1.2.3.4",
        "[2001:db8::1]",
    ])
    .prop_map(str::to_owned)
}

fn a_pattern() -> impl Strategy<Value = String> {
    let below = prop::sample::select(vec!["*.test", "*.a.test", "*.b.a.test", "*.ubuntu.com", "*.org"]);
    let host = prop_oneof![a_host(), below.prop_map(str::to_owned)];
    (host, prop::option::of(a_port())).prop_map(|(host, port)| match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

fn a_port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![80, 443, 22, 8080])
}

fn an_egress() -> impl Strategy<Value = Egress> {
    let preset = prop::sample::select(vec![EgressPreset::None, EgressPreset::Registries, EgressPreset::Open]);
    (preset, prop::collection::vec(a_pattern(), 0..5)).prop_map(|(preset, allow)| Egress { preset, allow })
}

proptest! {
    #[test]
    fn a_shrunk_policy_allows_exactly_what_both_do(
        project in an_egress(), repository in an_egress(), host in a_host(), port in a_port(),
    ) {
        let shrunk = shrink(&project, &repository);
        let allows = |egress: &Egress| {
            Policy::new(egress).unwrap().decide(&Host::parse(&host).unwrap(), port).allowed
        };
        prop_assert_eq!(allows(&shrunk), allows(&project) && allows(&repository), "{:?}", shrunk);
    }

    #[test]
    fn any_text_is_a_pattern_in_one_spelling_or_an_error(text in ".{0,40}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern));
        }
    }

    #[test]
    fn a_name_never_escapes_its_spelling(label in "[a-zA-Z0-9_-]{1,20}", rest in "[a-zA-Z][a-zA-Z0-9]{0,10}") {
        let name = format!("{label}.{rest}");
        let host = Host::parse(&name).unwrap();
        prop_assert_eq!(&host, &Host::parse(&format!("{}.", name.to_uppercase())).unwrap());
        prop_assert_eq!(host, Host::Name(name.to_lowercase()));
    }

    #[test]
    fn carried_addresses_are_judged_as_what_they_carry(bits in any::<u32>()) {
        let v4 = Ipv4Addr::from(bits);
        let [a, b, c, d] = v4.octets().map(u16::from);
        let (high, low) = ((a << 8) | b, (c << 8) | d);
        for carrier in [
            Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            prop_assert_eq!(refused_address(IpAddr::V6(carrier)), refused_address(IpAddr::V4(v4)));
        }
        let std_says = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_unspecified() || v4.is_broadcast();
        prop_assert!(!std_says || !is_public(IpAddr::V4(v4)));
    }

    #[test]
    fn only_global_unicast_can_be_public(bits in any::<u128>()) {
        let address = Ipv6Addr::from(bits);
        let carried = address.to_ipv4_mapped().is_some() || address.segments()[0] == 0x64;
        let global = address.segments()[0] & 0xe000 == 0x2000;
        prop_assert!(global || carried || !is_public(IpAddr::V6(address)));
    }
}
