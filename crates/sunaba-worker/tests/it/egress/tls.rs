//! TLS from a program in a sandbox to a server outside: the proxy carries it and is no part of it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// A web server with a certificate of its own making for `registry.test`; it answers `GET` with its status page.
struct Secured {
    dir: tempfile::TempDir,
    port: u16,
    child: Child,
    /// Kept open: it may say more.
    _said: BufReader<ChildStdout>,
}

impl Drop for Secured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Secured {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
            ])
            .args(["-subj", "/CN=registry.test", "-addext", "subjectAltName=DNS:registry.test"])
            .args(["-keyout", "key.pem", "-out", "certificate.pem"])
            .current_dir(dir.path())
            .output()
            .expect("these tests need openssl: install the package");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Port 0 is one that is free; it is said on the first line.
        let mut child = Command::new("openssl")
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-key",
                "key.pem",
                "-cert",
                "certificate.pem",
                "-www",
            ])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let accepting = |line: String| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok();
        let port = said.by_ref().lines().map_while(Result::ok).find_map(accepting);
        Self { dir, port: port.expect("openssl says where it listens"), child, _said: said }
    }

    fn host(&self) -> String {
        format!("registry.test:{}", self.port)
    }

    fn certificate(&self) -> PathBuf {
        self.dir.path().join("certificate.pem")
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_certificate_is_checked_through_the_tunnel_by_the_client_itself() {
    let (world, outside) = (World::new().await, Secured::new());
    let (host, certificate) = (outside.host(), read(&outside.certificate()));
    let script = format!(
        "curl -sS --cacert trusted.pem https://{host}/ | grep -o 'New, TLSv1[.][0-9]'
         curl -sS https://{host}/ -o unread; echo \"untrusted ended with $?\"
         curl -sS --cacert trusted.pem --connect-to wrong.test:{port}:{host} https://wrong.test:{port}/ -o unread
         echo \"wrong name ended with $?\"
         curl -sS --cacert trusted.pem https://other.test/ -o unread; echo \"other ended with $?\"",
        port = outside.port
    );
    let prepare = |places: &HostPlaces| put(places, "trusted.pem", &certificate);
    let ran = world.run_with(EgressPreset::None, &[&host], Vec::new(), prepare, &script).await;
    // curl's own numbers: 60 is a certificate that does not hold, 56 a tunnel that was refused.
    for words in
        ["New, TLSv1.3", "untrusted ended with 60", "wrong name ended with 60", "other ended with 56"]
    {
        assert!(ran.output.contains(words), "{words}: {ran:#?}");
    }
    let allowed = ("allowed".to_owned(), format!("allow[0]: {host}"));
    assert_eq!(ran.decisions("registry.test").first(), Some(&allowed), "{ran:#?}");
    assert_eq!(ran.decisions("other.test").first().map(|one| one.0.as_str()), Some("refused"), "{ran:#?}");
    let carried = ran.events.iter().any(|event| event["received_bytes"].as_u64().is_some_and(|b| b > 1000));
    assert!(carried, "what went through is counted: {ran:#?}");
}
