//! Sources behind HTTP: a real git fetches from a small server that wants a token.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use secrecy::SecretString;
use sunaba_git::{Credential, Error, FetchProblem, Mirror};

use crate::support::{World, git};

const TOKEN: &str = "hush-hush-token";

/// What the server does with a request that shows the token, or with any.
#[derive(Clone)]
enum Manner {
    /// Serves this directory to who shows the token.
    Files(PathBuf),
    /// Sends everybody there.
    Redirect(String),
    /// Has nothing.
    Nothing,
}

/// Serves until the test ends; keeps every `Authorization` it was shown.
struct Web {
    url: String,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&shown);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (manner, kept) = (manner.clone(), Arc::clone(&kept));
                std::thread::spawn(move || answer(&stream, &manner, &kept));
            }
        });
        Self { url, shown }
    }

    fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }
}

fn answer(stream: &TcpStream, manner: &Manner, shown: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap().to_owned();
    let mut authorized = false;
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some(value) = line.strip_prefix("Authorization: ") {
            shown.lock().unwrap().push(value.to_owned());
            authorized = true;
        }
    }
    let (head, body) = match manner {
        Manner::Redirect(to) => {
            (format!("302 Found\r\nLocation: {to}{path}?service=git-upload-pack"), Vec::new())
        }
        Manner::Nothing => ("404 Not Found".to_owned(), Vec::new()),
        Manner::Files(_) if !authorized => {
            ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"".to_owned(), Vec::new())
        }
        Manner::Files(root) => match std::fs::read(root.join(path.trim_start_matches('/'))) {
            Ok(bytes) => ("200 OK".to_owned(), bytes),
            Err(_) => ("404 Not Found".to_owned(), Vec::new()),
        },
    };
    let mut stream = stream;
    let _ = write!(stream, "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(&body);
}

/// A copy of the world's repository that plain files can serve.
fn served(world: &World) -> PathBuf {
    let root = world.dir.path().join("www");
    std::fs::create_dir(&root).unwrap();
    git(world.dir.path(), &["clone", "-q", "--bare", &world.source(), "www/a.git"]);
    git(&root.join("a.git"), &["update-server-info"]);
    root
}

async fn fetch(world: &World, url: &str, token: Option<&str>) -> Result<Mirror, Error> {
    let mirror = Mirror::ensure(world.dir.path().join("git/e.git"), url).await.unwrap();
    let credential = token.map(|token| Credential::token(SecretString::from(token)));
    let mirror = mirror.with_credential(credential);
    mirror.fetch().await.map(|()| mirror)
}

#[tokio::test]
async fn a_private_repository_opens_with_its_token_and_the_token_stays_in_memory() {
    let world = World::new();
    let web = Web::start(Manner::Files(served(&world)));
    let url = format!("{}/a.git", web.url);
    let refused = fetch(&world, &url, None).await.unwrap_err();
    assert!(matches!(&refused, Error::CannotFetch { problem: FetchProblem::NotAllowed, .. }), "{refused}");
    assert!(refused.to_string().contains("GIT_TOKEN"), "{refused}");

    let mirror = fetch(&world, &url, Some(TOKEN)).await.unwrap();
    assert_eq!(
        mirror.read_file(&mirror.files_at("main").await.unwrap(), "README.md", 100).await.unwrap().unwrap(),
        b"hello\n"
    );
    assert!(!web.shown().is_empty());
    assert!(!holds(mirror.dir(), TOKEN), "the token is in a file of the mirror");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_shown_the_token() {
    let world = World::new();
    let thief = Web::start(Manner::Files(served(&world)));
    let web = Web::start(Manner::Redirect(thief.url.clone()));
    let refused = fetch(&world, &format!("{}/a.git", web.url), Some(TOKEN)).await.unwrap_err().to_string();
    assert_eq!(thief.shown(), Vec::<String>::new());
    assert!(!refused.contains(TOKEN), "{refused}");
}

#[tokio::test]
async fn what_cannot_be_cloned_says_what_to_do() {
    let world = World::new();
    let web = Web::start(Manner::Nothing);
    let absent = fetch(&world, &format!("{}/a.git", web.url), Some(TOKEN)).await.unwrap_err();
    assert!(matches!(&absent, Error::CannotFetch { problem: FetchProblem::NotFound, .. }), "{absent}");
    let away = fetch(&world, "http://127.0.0.1:9/a.git", None).await.unwrap_err();
    assert!(matches!(&away, Error::CannotFetch { problem: FetchProblem::Unreachable, .. }), "{away}");
}

fn holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| match entry.file_type().unwrap().is_dir() {
        true => holds(&entry.path(), text),
        false => {
            std::fs::read(entry.path()).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes())
        }
    })
}
