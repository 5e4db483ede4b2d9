//! Reservations outlive the server and the store: killed in the middle of a call, it has spent them; when the store
//! cannot be written, they stay until it can.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_store::{EventQuery, Spender};
use sunaba_testkit::Occupied;
use sunaba_types::{Clock as _, SandboxId, SystemClock};
use tempfile::TempDir;

use crate::support::{Setup, World, gateway_over, open_store};
use crate::vendor::Vendor;

/// Where the child of [`a_server_that_is_killed_in_mid_call_has_spent_the_reservation`] works.
const CHILD_DIR: &str = "SUNABA_TEST_CHILD_DIR";
const MODEL_CALL: &str = "gateway.model_call";

/// The other half of the test below: a gateway with a call under way, until it is killed.
#[tokio::test]
async fn a_gateway_in_mid_call() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let dir = Path::new(&dir);
    let vendor = Vendor::held().await;
    let own = TempDir::new_in(dir).unwrap();
    let upstream = Some(vendor.address.clone());
    let setup = Setup { upstream, budget_usd: Some(1.0), ..Setup::default() };
    let world = World::in_dir(own, setup).await;
    let request =
        json!({"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]});
    let called = async {
        vendor.until_heard("/v1/messages").await;
        let said = format!("{}\n{}", world.dir.path().display(), world.sandbox.id);
        std::fs::write(dir.join("called.new"), said).unwrap();
        std::fs::rename(dir.join("called.new"), dir.join("called")).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    tokio::join!(called, world.ask(&request));
    panic!("nobody killed this process");
}

#[tokio::test]
async fn a_server_that_is_killed_in_mid_call_has_spent_the_reservation() {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "budget_recovery::a_gateway_in_mid_call", "--nocapture"]);
    sunaba_testkit::share_store(&mut command);
    let mut child = command.env(CHILD_DIR, dir.path()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let said = loop {
        if let Ok(said) = std::fs::read_to_string(dir.path().join("called")) {
            break said;
        }
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the child made no call");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // SIGKILL: nothing in it runs any more.
    child.kill().unwrap();
    child.wait().unwrap();
    let (place, sandbox) = said.split_once('\n').unwrap();
    let sandbox = SandboxId::parse(sandbox).unwrap();

    let store = open_store(Path::new(place)).await;
    let open = store.open_calls(None).await.unwrap();
    assert_eq!(open.len(), 1);
    assert!(open[0].micros > 1000, "{open:?}");
    let state = gateway_over(&store, Path::new(place));
    // A call that began after this server did is its own.
    assert_eq!(state.recover(open[0].created_at).await.unwrap(), 0);
    assert_eq!(state.recover(SystemClock.now()).await.unwrap(), 1);
    assert_eq!(state.recover(SystemClock.now()).await.unwrap(), 0);
    let spending = store.spending(&Spender::Sandbox(sandbox.clone())).await.unwrap();
    assert_eq!((spending.cost_micros, spending.reserved_micros), (open[0].micros, 0));
    let query = EventQuery {
        sandbox_id: sandbox,
        event_types: vec![MODEL_CALL.to_owned()],
        exclude_types: Vec::new(),
        contains: None,
        after_seq: None,
        before_seq: None,
        offset: 0,
        limit: 10,
    };
    let events = store.list_events(query).await.unwrap().events;
    assert_eq!(events.len(), 1);
    let event = events[0].payload.to_value();
    assert_eq!((&event["status"], &event["known_by"]), (&json!(0), &json!("reservation")));
    assert_eq!((&event["call_id"], &event["model"]), (&json!(open[0].id), &json!("claude-x")));
    assert_eq!(event["error"], Value::from("the server was gone before the answer was seen"));
}

#[tokio::test]
async fn a_store_that_cannot_be_written_keeps_the_reservation_until_it_can() {
    let vendor = Vendor::held().await;
    let world = World::with_budget(&vendor.address, 0.01).await;
    let request =
        json!({"model": "claude-x", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}]});
    let after_the_call = async {
        vendor.until_heard("/v1/messages").await;
        let occupied = Occupied::store_of(world.dir.path());
        vendor.let_go();
        occupied
    };
    let asking = world.ask(&request);
    let held = async {
        let occupied = after_the_call.await;
        let ((_, before), since) = (world.spent().await, Instant::now());
        // Longer than the store itself waits for a writer: the first try has failed.
        while since.elapsed() < Duration::from_secs(4) {
            assert_eq!(world.spent().await, (0, before), "the reservation stays");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Nobody spends in the meantime what could not be written down.
        let (status, body) = world.ask(&request).await;
        assert_eq!(status, 503, "{body}");
        drop(occupied);
        before
    };
    let ((status, _), before) = tokio::join!(asking, held);
    assert!(status == 200 && before > 5000, "{status} {before}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.spent().await != (vendor.charged(), 0) {
        assert!(Instant::now() < deadline, "not settled: {:?}", world.spent().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What is left is what the cap leaves: one more of the same fits only in part.
    let (status, body) = world.ask(&request).await;
    assert_eq!(status, 200, "{body}");
    assert!(world.spent().await.0 <= 10_000 && vendor.charged() <= 10_000);
}
