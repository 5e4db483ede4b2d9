//! No order of reservations, settlements and crashes lets more be spent than the cap.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use sunaba_store::{Error, Reserve, Settlement};
use sunaba_types::{CallId, Clock as _, SystemClock};

use crate::support::World;

const CAP_MICROS: i64 = 10_000;

#[derive(Debug, Clone)]
enum Step {
    Reserve {
        least: i64,
        more: i64,
    },
    /// Settles one of the open calls at a part of its reservation, in hundredths.
    Settle {
        which: usize,
        part: i64,
    },
    /// The server dies; the next one settles what it left.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4000i64, 0..4000i64).prop_map(|(least, more)| Step::Reserve { least, more }),
        4 => (any::<usize>(), 0..=100i64).prop_map(|(which, part)| Step::Settle { which, part }),
        1 => Just(Step::Crash),
    ]
}

async fn play(world: &World, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut open: Vec<(CallId, i64)> = Vec::new();
    let (mut cost, _) = world.spent().await;
    for step in steps {
        match step {
            Step::Reserve { least, more } => {
                let reserve = Reserve {
                    sandbox_id: world.sandbox.id.clone(),
                    attempt: world.sandbox.attempt,
                    node_id: None,
                    dialect: "anthropic".into(),
                    model: "claude-x".into(),
                    least_micros: least,
                    most_micros: least + more,
                };
                match world.store.reserve_call(reserve).await {
                    Ok(reserved) => {
                        prop_assert!((least..=least + more).contains(&reserved.micros));
                        open.push((reserved.id, reserved.micros));
                    }
                    Err(Error::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Settle { which, part } if !open.is_empty() => {
                let (id, micros) = open.swap_remove(which % open.len());
                let cost_micros = micros * part / 100;
                let settlement =
                    Settlement { cost_micros, known_by: "usage".into(), ..Settlement::default() };
                prop_assert!(world.store.settle_call(&id, settlement.clone()).await.unwrap());
                prop_assert!(!world.store.settle_call(&id, settlement).await.unwrap(), "settled twice");
                cost += cost_micros;
            }
            Step::Settle { .. } => {}
            Step::Crash => {
                // Later than every call: the clock counts in microseconds.
                tokio::time::sleep(std::time::Duration::from_micros(10)).await;
                prop_assert_eq!(world.state.recover(SystemClock.now()).await.unwrap(), open.len());
                cost += open.drain(..).map(|(_, micros)| micros).sum::<i64>();
            }
        }
        let reserved: i64 = open.iter().map(|(_, micros)| *micros).sum();
        prop_assert_eq!(world.spent().await, (cost, reserved));
        prop_assert!(cost + reserved <= CAP_MICROS, "{} + {}", cost, reserved);
    }
    Ok(())
}

#[test]
fn no_order_of_things_spends_more_than_the_cap() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 12, max_shrink_iters: 50, ..Config::default() });
    let result = runner.run(&proptest::collection::vec(step(), 1..30), |steps| {
        runtime.block_on(async {
            let world = World::with_budget("http://127.0.0.1:9", 0.01).await;
            play(&world, steps).await
        })
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
