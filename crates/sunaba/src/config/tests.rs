use std::collections::BTreeMap;
use std::path::Path;

use super::*;

fn outside(dir: &Path) -> Outside {
    let flags = BTreeMap::from([("data_dir", dir.display().to_string())]);
    Outside { flags, ..Outside::default() }
}

fn problems(outside: &Outside) -> String {
    load(outside).expect_err("must be refused").to_string()
}

#[test]
fn every_default_is_possible() {
    let dir = tempfile::tempdir().unwrap();
    let loaded = load(&outside(dir.path())).unwrap();
    assert_eq!(loaded.config.listen.to_string(), "127.0.0.1:18000");
    assert_eq!(loaded.config.data_dir, dir.path());
    assert_eq!(loaded.config.default_model(), "script:default");
    assert_eq!(loaded.values["listen"].origin, Origin::Default);
}

#[test]
fn a_later_layer_wins_and_its_origin_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sunaba.yaml");
    std::fs::write(&file, "listen: 127.0.0.1:1\nsandbox:\n  cpu: 3\n  disk_gb: 5\n").unwrap();
    std::fs::write(dir.path().join("sunaba.local.yaml"), "sandbox:\n  disk_gb: 6\n").unwrap();
    let mut outside = outside(dir.path());
    outside.env.insert("SANDBOX_CPU".into(), "4".into());
    outside.env.insert("SOMETHING_ELSE".into(), "x".into());
    outside.flags.insert("listen", "127.0.0.1:2".into());

    let loaded = load(&outside).unwrap();
    assert_eq!(loaded.config.listen.port(), 2);
    assert_eq!(loaded.values["listen"].origin, Origin::Flag("listen"));
    assert_eq!(loaded.config.sandbox.resources.cpu, 4.0);
    assert_eq!(loaded.values["sandbox.cpu"].origin, Origin::Environment("SANDBOX_CPU"));
    assert_eq!(loaded.config.sandbox.resources.disk_gb, 6.0, "the overlay wins over its base");
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sunaba.yaml");
    std::fs::write(&file, "listen: 127.0.0.1:1\nsandbox:\n  memory_bg: 3\ncolour: blue\n").unwrap();
    let at = file.display();
    assert_eq!(
        problems(&outside(dir.path())),
        format!(
            "{at}:3: unknown key \"sandbox.memory_bg\"; did you mean \"sandbox.memory_gb\"?\n\
             {at}:4: unknown key \"colour\"; `sunaba config` lists every key"
        )
    );
}

#[test]
fn an_impossible_value_is_refused_wherever_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sunaba.yaml");
    std::fs::write(&file, "\nsandbox: {cpu: many}\n").unwrap();
    let mut outside = outside(dir.path());
    outside.env.insert("MAX_TURNS".into(), "0".into());
    outside.flags.insert("auth", "of".into());
    let text = problems(&outside);
    let wanted = [
        format!("{}:2: sandbox.cpu: \"many\" must be a number from 0.1 to 1024", file.display()),
        "$MAX_TURNS: orchestrator.max_turns: \"0\" must be a whole".to_owned(),
        "--auth: auth: \"of\" must be required or off; did you mean \"off\"?".to_owned(),
    ];
    for line in wanted {
        assert!(text.contains(&line), "{line}\nis missing in\n{text}");
    }
}

/// 32 bytes in base64.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[test]
fn postgres_needs_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = outside(dir.path());
    outside.env.insert("DATABASE_URL".into(), "postgres://me:geheim@host/db".into());
    let said = problems(&outside);
    assert!(said.starts_with("$DATABASE_URL: database_url: PostgreSQL needs the key"), "{said}");
    assert!(said.contains("openssl rand -base64 32") && said.contains("SUNABA_SECRET_KEY"), "{said}");
    assert!(!said.contains("geheim"), "{said}");
    outside.env.insert("SUNABA_SECRET_KEY".into(), KEY.into());
    assert!(matches!(load(&outside).unwrap().config.database, Database::Postgres(_)));
    outside.env.remove("SUNABA_SECRET_KEY");
    outside.env.insert("SUNABA_SECRET_KEY_FILE".into(), "/a/key".into());
    assert!(load(&outside).is_ok());
}

#[test]
fn a_password_in_an_address_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = outside(dir.path());
    outside.env.insert("SUNABA_SECRET_KEY".into(), KEY.into());
    outside.env.insert("REDIS_URL".into(), "rediss://:geheim@host:6380".into());
    outside.flags.insert("database_url", "postgres://me:geheim@host/db?password=geheim".into());
    let loaded = load(&outside).unwrap();
    assert!(loaded.config.redis_url.is_some());
    for text in [to_text(&loaded), to_json(&loaded).to_string(), format!("{:?}", loaded.config)] {
        assert!(!text.contains("geheim"), "{text}");
    }
    assert!(to_text(&loaded).contains("postgres://me:***@host/db?password=*** "));
    assert!(to_text(&loaded).contains("rediss://:***@host:6380 "));
    assert_eq!(loaded.passwords_in_flags(), ["database_url"]);

    outside.flags.insert("database_url", "postgres://me:geheim@host".into());
    outside.env.insert("REDIS_URL".into(), "http://:geheim@host".into());
    let said = problems(&outside);
    assert!(said.contains("\"postgres://me:***@host\" names no database"), "{said}");
    assert!(said.contains("\"http://:***@host\" is not an address of Redis"), "{said}");
    assert!(!said.contains("geheim"), "{said}");
}

#[test]
fn roles_are_named_or_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let with = |roles: Option<&str>, enabled: &str| {
        let mut outside = outside(dir.path());
        outside.env.insert("ORCHESTRATOR_ENABLED".into(), enabled.to_owned());
        outside.flags.extend(roles.map(|roles| ("roles", roles.to_owned())));
        load(&outside).map(|loaded| loaded.config.roles.to_string()).map_err(|error| error.to_string())
    };
    for (roles, enabled, expected) in [
        (None, "true", "api,orchestrator"),
        (None, "false", "api"),
        (Some("orchestrator, api"), "true", "api,orchestrator"),
        (Some("orchestrator"), "true", "orchestrator"),
        (Some("api"), "false", "api"),
        (Some("api"), "true", "api"),
    ] {
        assert_eq!(with(roles, enabled).as_deref(), Ok(expected), "{roles:?} {enabled}");
    }
    for (roles, enabled, why) in [
        (
            "api,orchestrater",
            "true",
            "holds the role \"orchestrater\", which must be api or orchestrator; did you mean",
        ),
        ("", "true", "names no role"),
        ("api,orchestrator", "false", "names the role orchestrator, which $ORCHESTRATOR_ENABLED takes away"),
    ] {
        let said = with(Some(roles), enabled).unwrap_err();
        assert!(said.starts_with("--roles: roles:") && said.contains(why), "{said}");
    }
}

#[test]
fn a_node_s_address_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = outside(dir.path());
    outside.flags.insert("node_address", "here:1".into());
    assert!(
        problems(&outside).starts_with("--node-address: node_address: \"here:1\" must start with http://")
    );
    outside.flags.insert("node_address", "http://10.0.0.1:18000/".into());
    assert_eq!(load(&outside).unwrap().config.node_address.as_deref(), Some("http://10.0.0.1:18000"));
}

#[test]
fn auth_off_needs_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = outside(dir.path());
    outside.flags.insert("auth", "off".into());
    assert!(load(&outside).is_ok());
    outside.flags.insert("listen", "0.0.0.0:18000".into());
    assert!(problems(&outside).contains("only possible on a loopback address"));
}

#[test]
fn a_secret_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut outside = outside(dir.path());
    outside.env.insert("ANTHROPIC_API_KEY".into(), "sk-very-secret".into());
    let loaded = load(&outside).unwrap();
    assert_eq!(loaded.config.default_model(), "claude-sonnet-4-5");
    for text in [to_text(&loaded), to_json(&loaded).to_string(), format!("{:?}", loaded.config)] {
        assert!(!text.contains("very-secret"), "{text}");
    }
    let text = to_text(&loaded);
    let line = text.lines().find(|line| line.starts_with("anthropic.api_key")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..].join(" "), "(set, not shown) $ANTHROPIC_API_KEY");
}

#[test]
fn the_data_directory_follows_the_custom_of_the_machine() {
    let with = |name: &str, value: &str| {
        data_dir(&Outside { env: BTreeMap::from([(name.into(), value.into())]), ..Outside::default() })
    };
    assert_eq!(with("SUNABA_DATA", "/a"), Path::new("/a"));
    assert_eq!(with("XDG_DATA_HOME", "/x"), Path::new("/x/sunaba"));
    assert_eq!(with("HOME", "/home/me"), Path::new("/home/me/.local/share/sunaba"));
}

#[test]
fn the_reference_page_names_every_key() {
    let page = reference();
    for key in KEYS {
        assert!(page.contains(&format!("### `{}`", key.name)));
        assert!(!key.help.is_empty(), "{}", key.name);
    }
}

#[test]
fn a_container_s_network_is_a_name_and_only_for_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let with = |network: &str, remote: &str| {
        let mut outside = outside(dir.path());
        for (name, value) in [
            ("DOCKER_HOST", "tcp://far:2375"),
            ("SUNABA_PUBLIC_URL", "https://here"),
            ("SUNABA_DOCKER_REMOTE", remote),
            ("SUNABA_DOCKER_NETWORK", network),
        ] {
            outside.env.insert(name.to_owned(), value.to_owned());
        }
        outside
    };
    let loaded = load(&with("agents_1", "true")).unwrap();
    assert_eq!(loaded.config.docker.network.as_deref(), Some("agents_1"));
    for (network, why) in [
        ("none", "has no way to the server"),
        ("host", "would give a sandbox all of that machine's network"),
        ("container:abc", "is another container's network"),
        ("a b", "is not the name of a network"),
        ("-x", "is not the name of a network"),
        ("../x", "is not the name of a network"),
    ] {
        let said = problems(&with(network, "true"));
        assert!(
            said.contains(&format!("$SUNABA_DOCKER_NETWORK: docker.network: {network:?} {why}")),
            "{said}"
        );
    }
    let here = problems(&with("agents", "false"));
    assert!(here.contains("docker.network: containers on this host have no network at all"), "{here}");
}

#[test]
fn a_daemon_behind_ssh_or_tls_is_refused_with_the_way_round() {
    let dir = tempfile::tempdir().unwrap();
    for host in ["ssh://me@far", "https://far:2376", "/var/run/docker.sock"] {
        let mut outside = outside(dir.path());
        outside.env.insert("DOCKER_HOST".to_owned(), host.to_owned());
        let said = problems(&outside);
        assert!(said.contains("must start with unix:// or tcp://") && said.contains("ssh -nNT -L"), "{said}");
    }
}

#[test]
fn a_certificate_authority_is_read_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let mut outside = outside(dir.path());
    outside.env.insert("SUNABA_PUBLIC_URL_CA".to_owned(), file.display().to_string());
    assert!(problems(&outside).contains("cannot be read"));
    for wrong in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, wrong).unwrap();
        assert!(problems(&outside).contains("holds no certificate in PEM"), "{wrong:?}");
    }
    std::fs::write(&file, "x".repeat(70_000)).unwrap();
    assert!(problems(&outside).contains("is larger than 65536 bytes"));
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(&file, pem).unwrap();
    assert_eq!(load(&outside).unwrap().config.public_url_ca.as_deref(), Some(pem));
}
