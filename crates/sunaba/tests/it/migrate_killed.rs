//! `sunaba migrate` killed again and again: the same command goes on where it was, and everything arrives.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use sunaba_store::{Append, Store, Writer};
use sunaba_store_sqlite::{Options, SqliteStore};
use sunaba_testkit::Postgres;
use sunaba_types::{EventPayload, NewEvent, SandboxId, Source, SystemClock, new_event_id};

use crate::support::{Ran, Server, sunaba};

const SANDBOXES: usize = 8;
/// Enough for a move of a second or so.
const BATCHES: usize = 12;
const BATCH: usize = 100;
const KILLS: usize = 3;
/// Moves at most until so many were killed in a row.
const TRIES: usize = 40;

/// A store with many events, as a server leaves it.
async fn fill(dir: &Path) {
    let options = Options::new(dir.join("sunaba.db"), Arc::new(SystemClock));
    let store: Arc<dyn Store> = SqliteStore::open(options).await.unwrap();
    for sandbox in 0..SANDBOXES {
        let sandbox_id = SandboxId::parse(format!("ext-{sandbox}")).unwrap();
        for batch in 0..BATCHES {
            let event = |n: usize| NewEvent {
                event_id: new_event_id(),
                event_type: format!("agent.kind_{}", n % 7),
                source: Source::Agent,
                payload: EventPayload::from_value(&json!({ "content": format!("{batch} {n} \u{1f980}") }))
                    .unwrap(),
                step: None,
            };
            let events = (0..BATCH).map(event).collect();
            let append = Append { sandbox_id: sandbox_id.clone(), writer: Writer::Registrar, events };
            assert!(store.append(append).await.unwrap().iter().all(Result::is_ok));
        }
    }
    store.close().await;
}

fn migrate(data: &Path, to: &str) -> Command {
    let mut command = sunaba(data);
    command.env_remove("DATABASE_URL").env_remove("SUNABA_SECRET_KEY");
    command.args(["migrate", "--json", "--from", &format!("sqlite:{}", data.display()), "--to", to]);
    command
}

/// Lets a move run for so long and kills it; whether it was still at work.
fn kill_after(mut command: Command, time: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_again_and_again_arrives_whole() {
    let given = std::env::var("SUNABA_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| rand::rng().random());
    println!("killed moves: SUNABA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (postgres, data) = (Postgres::start(), tempfile::tempdir().unwrap());
    fill(data.path()).await;

    // What an undisturbed move gives, and how long it takes.
    let began = Instant::now();
    let undisturbed = Ran::of(&mut migrate(data.path(), &postgres.database()));
    let whole: Value = serde_json::from_str(&undisturbed.expect_code(0).stdout).unwrap();
    let takes = began.elapsed();
    assert_eq!(whole["events"], SANDBOXES * BATCHES * BATCH);

    let (mut to, mut killed, mut guess) = (postgres.database(), 0, takes);
    for _ in 0..TRIES {
        if killed == KILLS {
            break;
        }
        let time = guess.mul_f64(random.random_range(0.1..0.9));
        if kill_after(migrate(data.path(), &to), time) {
            killed += 1;
        } else {
            // It was faster than the first, which had a colder machine: from the beginning, with a better guess.
            (to, killed, guess) = (postgres.database(), 0, guess.mul_f64(0.7));
        }
    }
    println!("{killed} were killed at work; one takes {takes:?}, and less than {guess:?} when it goes on");
    assert_eq!(killed, KILLS, "too few were killed at work");
    let last = Ran::of(&mut migrate(data.path(), &to));
    // One that was killed on its way out has left nothing to do.
    if last.code == Some(0) {
        let moved: Value = serde_json::from_str(&last.stdout).unwrap();
        assert_eq!(moved, whole);
    } else {
        assert!(last.stderr.contains("the target is not empty"), "{last:?}");
    }
    compare(data, &to);
}

/// Serves what was moved, and looks at it from there.
fn compare(data: tempfile::TempDir, to: &str) {
    let mut command = sunaba(data.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).env("DATABASE_URL", to);
    command.env("SUNABA_SECRET_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let server = Server::of(command, data);
    let verified = server.run(&["verify", "--all"]);
    for sandbox in 0..SANDBOXES {
        let holds = format!("ext-{sandbox}: {} events, the chain holds", BATCHES * BATCH);
        assert!(verified.expect_code(0).stdout.contains(&holds), "{}", verified.stdout);
    }
}
