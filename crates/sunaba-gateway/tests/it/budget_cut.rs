//! Calls that are cut: a vendor charges for what its model wrote, and so does the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::Uri;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::support::{World, listen};

const CAP_MICROS: i64 = 30_000;
/// Tokens per second. The gateway reckons with more of a model at this price.
const SPEED: u64 = 150;

/// A vendor that writes as fast as it can, mostly thoughts that it does not show, and charges for them at a dollar
/// for a million tokens in and ten for a million out.
#[derive(Clone, Default)]
struct Writer {
    charged: Arc<AtomicI64>,
    writing: Arc<AtomicUsize>,
}

/// An answer that is being written; when nobody reads it any more, what was written is charged.
struct Answer {
    writer: Writer,
    since: Instant,
    most: u64,
    step: usize,
    input: usize,
}

impl Answer {
    fn written(&self) -> u64 {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap();
        (millis * SPEED / 1000).min(self.most)
    }

    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        self.step += 1;
        let event = if self.step == 1 {
            let usage = json!({"input_tokens": self.input, "output_tokens": 1});
            json!({"type": "message_start", "message": {"usage": usage}})
        } else if self.written() < self.most {
            tokio::time::sleep(Duration::from_millis(10)).await;
            json!({"type": "ping"})
        } else if self.step < usize::MAX / 2 {
            self.step = usize::MAX / 2;
            json!({"type": "message_delta", "usage": {"output_tokens": self.most}})
        } else {
            return None;
        };
        let bytes = Bytes::from(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
        Some((Ok(bytes), self))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let output = i64::try_from(self.written()).unwrap() * 10;
        self.writer.charged.fetch_add(output, Ordering::SeqCst);
        self.writer.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn write(State(writer): State<Writer>, uri: Uri, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    let input = body.len() / 4;
    if uri.path().ends_with("count_tokens") {
        return axum::Json(json!({"input_tokens": input})).into_response();
    }
    writer.charged.fetch_add(i64::try_from(input).unwrap(), Ordering::SeqCst);
    let most = request["max_tokens"].as_u64().unwrap();
    if request["stream"] == true {
        writer.writing.fetch_add(1, Ordering::SeqCst);
        let answer = Answer { writer, since: Instant::now(), most, step: 0, input };
        let body = Body::from_stream(futures::stream::unfold(answer, Answer::next));
        return Response::builder().header("content-type", "text/event-stream").body(body).unwrap();
    }
    // Nobody tells it that its reader is gone: it writes to the end.
    writer.charged.fetch_add(i64::try_from(most).unwrap() * 10, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let usage = json!({"input_tokens": input, "output_tokens": most});
    axum::Json(json!({"type": "message", "content": [], "usage": usage})).into_response()
}

#[derive(Debug, Clone)]
struct Step {
    streamed: bool,
    max_tokens: u64,
    leaves_after_ms: u64,
}

fn step() -> impl Strategy<Value = Step> {
    (any::<bool>(), 1..1500u64, 0..600u64).prop_map(|(streamed, max_tokens, leaves_after_ms)| Step {
        streamed,
        max_tokens,
        leaves_after_ms,
    })
}

async fn ask(url: String, step: Step) {
    let Step { streamed, max_tokens, leaves_after_ms } = step;
    let request = json!({"model": "claude-x", "max_tokens": max_tokens, "stream": streamed, "messages": []});
    let whole = async {
        let answer = reqwest::Client::new().post(url).json(&request).send().await.unwrap();
        answer.bytes().await.unwrap();
    };
    let _ = tokio::time::timeout(Duration::from_millis(leaves_after_ms), whole).await;
}

async fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let writer = Writer::default();
    let router = Router::new().fallback(write).with_state(writer.clone());
    #[expect(clippy::cast_precision_loss, reason = "a small amount")]
    let world = World::with_budget(&listen(router).await, CAP_MICROS as f64 / 1e6).await;
    let mut calls = tokio::task::JoinSet::new();
    for step in steps {
        calls.spawn(ask(format!("{}/gateway/anthropic/v1/messages", world.base), step));
    }
    calls.join_all().await;
    world.state.drain().await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while writer.writing.load(Ordering::SeqCst) > 0 {
        assert!(Instant::now() < deadline, "the vendor never noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (spent, reserved) = world.spent().await;
    let charged = writer.charged.load(Ordering::SeqCst);
    prop_assert_eq!(reserved, 0);
    prop_assert!(charged <= spent, "the vendor charged {}, the budget knows of {}", charged, spent);
    prop_assert!(spent <= CAP_MICROS, "{} of {}", spent, CAP_MICROS);
    Ok(())
}

#[test]
fn however_calls_are_cut_the_vendor_charges_no_more_than_the_budget_knows_of() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 10, max_shrink_iters: 20, ..Config::default() });
    let result = runner.run(&proptest::collection::vec(step(), 1..8), |steps| runtime.block_on(play(steps)));
    if let Err(error) = result {
        panic!("{error}");
    }
}
