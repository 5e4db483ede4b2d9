//! What is said about a Redis that cannot be used.

use std::time::{Duration, Instant};

use sunaba_bus::{Config, Error, RedisUrl};
use sunaba_testkit::{Redis, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Node, config, sqlite};

async fn check(url: &str) -> Result<(), Error> {
    let began = Instant::now();
    let answer = sunaba_bus::check(&Config::new(RedisUrl::parse(url).unwrap())).await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    if let Err(error) = &answer {
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    answer
}

#[tokio::test]
async fn a_good_one_is_good() {
    let redis = Redis::start_with(&["--requirepass", "pass/word"]);
    check(&redis.url().replace("//", "//:pass%2Fword@")).await.unwrap();
    check(&redis.url().replace("//", "//default:pass%2Fword@")).await.unwrap();
}

#[tokio::test]
async fn wrong_credentials_are_named() {
    let (open, closed) = (Redis::start(), Redis::start_with(&["--requirepass", "right"]));
    for url in [
        closed.url(),
        closed.url().replace("//", "//:hunter2@"),
        closed.url().replace("//", "//nobody:hunter2@"),
        open.url().replace("//", "//:hunter2@"),
    ] {
        let error = check(&url).await.unwrap_err();
        assert!(matches!(error, Error::Credentials { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains("redis://USER:PASSWORD@127.0.0.1:"), "{error}");
    }
}

#[tokio::test]
async fn nobody_there_is_named() {
    let redis = Redis::start();
    let url = redis.url();
    drop(redis);
    let error = check(&url).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("is it running"), "{error}");
}

/// Answers everybody with these words.
async fn stranger(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 1024];
                while let Ok(1..) = stream.read(&mut asked).await {
                    let _ = stream.write_all(words).await;
                }
            });
        }
    });
    format!("redis://{address}")
}

#[tokio::test]
async fn another_server_is_no_redis() {
    let web = stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = check(&web).await.unwrap_err();
    assert!(matches!(error, Error::NotRedis { .. }), "{error:?}");
    let error = check(&stranger(b"").await).await.unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error:?}");
    let redis = Redis::start();
    let error = check(&redis.url().replace("redis://", "rediss://")).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

/// Following it elsewhere would need a client for clusters, so the operator is told where to point.
#[tokio::test]
async fn a_part_of_a_cluster_says_which_part_has_the_keys() {
    // Twice: two commands come together at the beginning.
    let part = stranger(b"-MOVED 12739 10.0.0.7:6380\r\n-MOVED 12739 10.0.0.7:6380\r\n").await;
    let error = check(&part).await.unwrap_err();
    assert!(matches!(&error, Error::Moved { to, .. } if to == "10.0.0.7:6380"), "{error:?}");
    assert!(error.to_string().contains("name 10.0.0.7:6380 in REDIS_URL"), "{error}");
}

/// A server that was started too early, or with a wrong password, says so in its status and goes on trying.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_in_the_status_until_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let redis = Redis::start_with(&["--requirepass", "right"]);
    let node = Node::start(&redis, sqlite(&dir).await);
    let status = || node.handle.status();
    eventually("it is said", async || status().last_error.is_some_and(|error| error.contains("credentials")))
        .await;
    assert!(!status().connected);
    let mut mend = redis::Client::open(redis.url().replace("//", "//:right@")).unwrap();
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("").exec(&mut mend).unwrap();
    eventually("it is used", async || status().connected && status().leads).await;
    sunaba_bus::check(&config(&redis)).await.unwrap();
}
