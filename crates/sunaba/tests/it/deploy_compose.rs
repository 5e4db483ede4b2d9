//! `deploy/compose.yaml`: what it sets is what the program knows and takes.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::daemon::left_out;
use crate::deploy::{deploy, known_variables, read};
use crate::support::{Ran, sunaba};

/// The servers of the compose file, by name.
fn compose_servers() -> Vec<(String, Value)> {
    let file: Value = serde_saphyr::from_str(&read("compose.yaml")).unwrap();
    let services = file["services"].as_object().unwrap();
    let servers = services.iter().filter(|(_, service)| service["image"] == "sunaba");
    servers.map(|(name, service)| (name.clone(), service.clone())).collect()
}

#[test]
fn the_servers_of_the_compose_file_are_set_up_with_what_the_program_knows() {
    let servers = compose_servers();
    assert_eq!(servers.len(), 2);
    let known = known_variables();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for (name, service) in &servers {
        let data = tempfile::tempdir().unwrap();
        let mut config = sunaba(data.path());
        config.args(["config", "--json"]);
        for (variable, value) in service["environment"].as_object().unwrap() {
            assert!(known.contains(variable), "the program does not know {variable}");
            let value = value.as_str().unwrap().replace("${POSTGRES_PASSWORD:?in .env}", "word");
            assert!(!value.contains('$'), "{value}");
            config.env(variable, &value);
            if ["SUNABA_DATA", "SUNABA_NODE_ADDRESS"].contains(&variable.as_str()) {
                assert!(seen.insert((variable.clone(), value)), "{variable} of {name} is another's too");
            }
        }
        // Impossible values stop it.
        Ran::of(&mut config).expect_code(0);
        let environment = &service["environment"];
        let port = environment["SUNABA_LISTEN"].as_str().unwrap().rsplit(':').next().unwrap();
        assert_eq!(environment["SUNABA_NODE_ADDRESS"], format!("http://{name}:{port}"));
        let asked = service["healthcheck"]["test"].to_string();
        assert!(asked.contains(&format!("http://127.0.0.1:{port}/readyz")), "{asked}");
        // The daemon binds paths of the host into sandboxes.
        let place = environment["SUNABA_DATA"].as_str().unwrap();
        let volumes = service["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| *volume == format!("{place}:{place}")), "{volumes:?}");
        for needed in ["DATABASE_URL", "REDIS_URL", "SUNABA_SECRET_KEY_FILE"] {
            assert_eq!(environment[needed], servers[0].1["environment"][needed], "all share {needed}");
        }
        assert_eq!(environment["SUNABA_SECRET_KEY_FILE"], "/run/secrets/secret_key");
        assert_eq!(service["secrets"][0], "secret_key");
    }
}

#[test]
fn docker_compose_understands_the_file() {
    let mut compose = Command::new("docker");
    compose.args(["compose", "version"]).stderr(Stdio::null());
    if !compose.output().is_ok_and(|output| output.status.success()) {
        return left_out("the compose file as docker compose reads it", "the plugin is not installed");
    }
    let ran = Ran::of(
        Command::new("docker")
            .args(["compose", "--file"])
            .arg(deploy("compose.yaml"))
            .args(["config", "--quiet"])
            .env("POSTGRES_PASSWORD", "word"),
    );
    ran.expect_code(0);
}
