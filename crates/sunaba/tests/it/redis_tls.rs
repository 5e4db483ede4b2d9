//! A Redis behind TLS, with a certificate of an authority that only `SSL_CERT_FILE` names.

use sunaba_testkit::Redis;

use crate::docker_tls::Terminator;
use crate::support::{Server, sunaba, until};

fn serve(url: &str, authority: Option<&std::path::Path>) -> Server {
    let data = tempfile::tempdir().unwrap();
    let mut command = sunaba(data.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).env("REDIS_URL", url);
    if let Some(authority) = authority {
        command.env("SSL_CERT_FILE", authority);
    }
    Server::of(command, data)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_published_over_tls_to_a_redis_that_is_trusted() {
    let (redis, dir) = (Redis::start(), tempfile::tempdir().unwrap());
    let behind = Terminator::start("127.0.0.1", dir.path()).await;
    behind.lead_to(&redis.url().replace("redis://", "http://"));
    let url = behind.url.replace("https://", "rediss://");
    let authority = dir.path().join("ca.pem");

    let trusting = serve(&url, Some(&authority));
    until("it publishes", || trusting.json(&["status"])["bus"]["leads"] == true);

    let strange = serve(&url, None);
    until("it is said", || strange.json(&["status"])["bus"]["last_error"].is_string());
    let said = strange.json(&["status"])["bus"].clone();
    assert_eq!(said["connected"], false);
    assert!(said["last_error"].as_str().unwrap().contains("certificate"), "{said}");
}
