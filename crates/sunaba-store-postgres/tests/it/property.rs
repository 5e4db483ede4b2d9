//! Whatever the interleaving, each event is stored once.

use proptest::collection::vec;
use proptest::prelude::*;
use sunaba_store::conformance::random;

use crate::support::fresh;

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn interleaved_writers_store_each_event_once(
        writers in vec(vec((0..3_u8, vec(0..60_u16, 1..12)), 1..8), 1..8)
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { random::run(fresh().await, writers).await });
    }
}
