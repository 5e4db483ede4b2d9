//! The outside: a static web server on loopback with tiny registries of each kind.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves a directory until it is dropped.
pub(super) struct Outside {
    dir: tempfile::TempDir,
    pub(super) port: u16,
    serving: JoinHandle<()>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Outside {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let root = dir.path().to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let root = root.clone();
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&root, request.uri().path());
                    async move { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { dir, port, serving }
    }

    /// Where the sandbox finds it.
    pub(super) fn host(&self) -> String {
        format!("registry.test:{}", self.port)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.host())
    }

    pub(super) fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A repository that any web server can serve.
    pub(super) fn add_git(&self) {
        self.put("work/hello.txt", "hello from git\n");
        self.shell(
            "cd work; git init -q -b main .; git add .
             git -c user.name=A -c user.email=a@example.invalid commit -qm first
             cd ..; git clone -q --bare work repo.git; git -C repo.git update-server-info",
        );
    }

    pub(super) fn add_npm(&self) {
        self.put("made/package/package.json", r#"{"name": "tiny", "version": "1.0.0", "main": "index.js"}"#);
        self.put("made/package/index.js", "module.exports = 'hello from npm';\n");
        self.shell("mkdir -p npm/tiny/-; tar -C made -czf npm/tiny/-/tiny-1.0.0.tgz package");
        let tarball = format!("{}/npm/tiny/-/tiny-1.0.0.tgz", self.url());
        let document = serde_json::json!({
            "name": "tiny",
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {"name": "tiny", "version": "1.0.0", "dist": {"tarball": tarball}}},
        });
        self.put("npm/tiny/index.json", &document.to_string());
    }

    pub(super) fn add_pypi(&self) {
        self.put("wheel/tiny.py", "WORDS = 'hello from pypi'\n");
        self.put("wheel/tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n");
        let wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        self.put("wheel/tiny-1.0.dist-info/WHEEL", wheel);
        let record = "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n";
        self.put("wheel/tiny-1.0.dist-info/RECORD", record);
        self.shell(
            "mkdir -p files; cd wheel; /usr/bin/python3 -m zipfile -c ../files/tiny-1.0-py3-none-any.whl *",
        );
        let link = "<a href=\"../../files/tiny-1.0-py3-none-any.whl\">tiny-1.0-py3-none-any.whl</a>";
        self.put("simple/tiny/index.html", &format!("<!DOCTYPE html><html><body>{link}</body></html>"));
    }

    pub(super) fn add_crates(&self) {
        let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
        self.put("crate/tiny-1.0.0/Cargo.toml", manifest);
        self.put("crate/tiny-1.0.0/src/lib.rs", "pub const WORDS: &str = \"hello from crates\";\n");
        self.shell("mkdir -p crates; tar -C crate -czf crates/tiny-1.0.0.crate tiny-1.0.0");
        let sum = self.shell("sha256sum crates/tiny-1.0.0.crate | cut -d' ' -f1");
        let line = serde_json::json!({
            "name": "tiny", "vers": "1.0.0", "deps": [], "cksum": sum.trim(), "features": {}, "yanked": false,
        });
        self.put("index/ti/ny/tiny", &format!("{line}\n"));
        let download = format!("{}/crates/{{crate}}-{{version}}.crate", self.url());
        self.put("index/config.json", &serde_json::json!({"dl": download}).to_string());
    }

    fn shell(&self, script: &str) -> String {
        let mut shell = Command::new("/bin/bash");
        shell.args(["-ec", script]).current_dir(self.dir.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn answer(root: &Path, path: &str) -> Response<Full<Bytes>> {
    if let Some(to) = path.strip_prefix("/redirect/") {
        let location = format!("http://{to}");
        let answer = Response::builder().status(StatusCode::FOUND).header(header::LOCATION, location);
        return answer.body(Full::default()).unwrap();
    }
    let plain = path.split('/').filter(|part| !part.is_empty() && *part != "..");
    let mut file = plain.fold(root.to_owned(), |at, part| at.join(part));
    if file.is_dir() {
        let page = file.join("index.html");
        file = if page.exists() { page } else { file.join("index.json") };
    }
    let kind = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    };
    match std::fs::read(&file) {
        Ok(bytes) => Response::builder()
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(Bytes::from(bytes)))
            .unwrap(),
        Err(_) => Response::builder().status(StatusCode::NOT_FOUND).body(Full::default()).unwrap(),
    }
}
