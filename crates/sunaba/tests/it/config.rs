//! Configuration as `serve` and `config` show it.

use std::path::Path;

use crate::support::{Ran, sunaba};

#[test]
fn an_unknown_key_stops_the_start_with_its_place_and_a_suggestion() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("sunaba.yaml");
    std::fs::write(&file, "listen: 127.0.0.1:0\nsandbox:\n  memroy_gb: 2\n").unwrap();
    for command in ["serve", "config"] {
        let ran = Ran::of(sunaba(data.path()).arg(command));
        ran.expect_code(2);
        let wanted = format!(
            "{}:3: unknown key \"sandbox.memroy_gb\"; did you mean \"sandbox.memory_gb\"?",
            file.display()
        );
        assert!(ran.stderr.contains(&wanted), "{command}: {}", ran.stderr);
    }
    assert!(!data.path().join("sunaba.db").exists(), "nothing was made before the check");
}

#[test]
fn an_impossible_value_stops_the_start() {
    let data = tempfile::tempdir().unwrap();
    let ran = Ran::of(sunaba(data.path()).arg("serve").env("DATABASE_URL", "mysql://h/d"));
    ran.expect_code(2);
    assert!(ran.stderr.contains("$DATABASE_URL: database_url:"), "{}", ran.stderr);
    let ran = Ran::of(sunaba(data.path()).args(["serve", "--log-level", "loud"]));
    ran.expect_code(2);
    assert!(ran.stderr.contains("--log-level: log.level: \"loud\" is not a log level"), "{}", ran.stderr);
    let ran = Ran::of(sunaba(data.path()).args(["serve", "--listen", "here"]));
    ran.expect_code(2);
    assert!(ran.stderr.contains("--listen: listen: \"here\" is not an address"), "{}", ran.stderr);
}

#[test]
fn every_value_is_shown_with_its_origin_and_no_secret() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("other.yaml");
    std::fs::write(&file, "log: {level: debug}\n").unwrap();
    let ran = Ran::of(
        sunaba(data.path())
            .args(["config", "--json", "--auth", "off", "--config"])
            .arg(&file)
            .env("ANTHROPIC_API_KEY", "sk-do-not-show")
            .env("SANDBOX_CPU", "3"),
    );
    ran.expect_code(0);
    assert!(!ran.stdout.contains("do-not-show"));
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let of = |key: &str| {
        let entry = shown["settings"].as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap();
        (entry["value"].as_str().unwrap_or("-").to_owned(), entry["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("log.level"), ("debug".into(), format!("{}:1", file.display())));
    assert_eq!(of("sandbox.cpu"), ("3".into(), "$SANDBOX_CPU".into()));
    assert_eq!(of("auth"), ("off".into(), "--auth".into()));
    assert_eq!(of("listen"), ("127.0.0.1:18000".into(), "default".into()));
    assert_eq!(of("anthropic.api_key").1, "$ANTHROPIC_API_KEY");
}

/// `sunaba config --reference > docs/configuration.md` writes the page anew.
#[test]
fn the_reference_page_is_up_to_date() {
    let data = tempfile::tempdir().unwrap();
    let ran = Ran::of(sunaba(data.path()).args(["config", "--reference"]));
    ran.expect_code(0);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let kept = std::fs::read_to_string(page).unwrap();
    assert_eq!(kept, ran.stdout, "run `sunaba config --reference > docs/configuration.md`");
}
