//! What an HTTP handler that only parses the JSON answers here, with the same client.

use std::time::Instant;

use axum::Json;
use axum::routing::post;

use crate::client::{Connection, event};
use crate::ingest::{CONNECTIONS, SECONDS};

pub(crate) async fn requests_per_second() -> anyhow::Result<f64> {
    let app = axum::Router::new().route("/", post(|Json(_): Json<serde_json::Value>| async { "{}" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let authority = listener.local_addr()?.to_string();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let authority = authority.clone();
        tasks.spawn(async move {
            let mut connection = Connection::open(&authority, "none").await?;
            let mut count = 0u64;
            while started.elapsed().as_secs_f64() < SECONDS {
                connection.post("/", event(count).to_string()).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0;
    while let Some(count) = tasks.join_next().await {
        total += count??;
    }
    serving.abort();
    Ok(total as f64 / started.elapsed().as_secs_f64())
}
