//! What a sandbox may use. Each limit is tried where the provider says that it is kept, in the way it says.

use std::time::Duration;

use sunaba_types::Enforcement;
use sunaba_types::shim::{Exit, Limits};
use tokio::time::{Instant, sleep};

use super::{PATIENCE, World, end_of, exec_in, hear, idle, run, said, start};
use crate::{CreateRequest, Error};

/// What is enforced is said, the same each time, and the report agrees.
pub async fn says_what_it_enforces(world: &impl World) {
    let provider = world.provider();
    let isolation = provider.isolation().await.unwrap();
    assert!(isolation.namespaces && isolation.network_closed, "{isolation:?}");
    assert_eq!(provider.isolation().await.unwrap(), isolation);
    let report = provider.report().await;
    assert_eq!(report.isolation, Some(isolation));
    assert!(!report.findings.is_empty());
    for finding in report.findings {
        assert!(!finding.name.is_empty() && !finding.detail.is_empty(), "{finding:?}");
    }
}

/// Processor time and memory grow with what is done.
pub async fn measures_what_is_used(world: &impl World) {
    let provider = world.provider();
    let id = start(&*provider, Limits::default(), "sleep 600").await;
    let before = provider.usage(&id).await.unwrap();
    assert!(before.memory_bytes > 0 && before.pids >= 1, "{before:?}");
    exec_in(
        &*provider,
        &id,
        "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 3000000 /dev/urandom > f",
    )
    .await;
    let after = provider.usage(&id).await.unwrap();
    assert!(after.cpu_ms > before.cpu_ms, "{before:?} {after:?}");
    assert!(after.memory_peak_bytes >= before.memory_peak_bytes && after.memory_peak_bytes > 0, "{after:?}");
    assert!(after.disk_bytes >= before.disk_bytes, "{before:?} {after:?}");
    provider.delete(&id).await.unwrap();
}

const MEMORY: Limits =
    Limits { memory_bytes: Some(96 << 20), cpu_millis: None, pids: None, disk_bytes: None };
/// Holds more than is allowed and, where sampling ends it, holds on to it.
const GREEDY: &str = "{ head -c 400000000 /dev/zero; sleep 30; } | tail -c 400000000 > /dev/null";

fn ended_for(exit: &Exit, limit: &str) {
    assert_eq!((exit.ended_for.as_deref(), exit.signal), (Some(limit), Some(9)), "{exit:?}");
    assert!(!exit.killed_on_request);
}

/// One process too greedy is killed; what else runs goes on, where the kernel does it.
pub async fn keeps_memory(world: &impl World) {
    let provider = world.provider();
    let (kept, greedy) = (provider.isolation().await.unwrap().memory, format!("{GREEDY}; echo survived"));
    if kept == Enforcement::None {
        eprintln!("left out: memory is not limited here");
        return;
    }
    let (exit, said) = run(&*provider, MEMORY, &greedy).await;
    assert!(exit.oom_kills >= 1, "{exit:?} {said}");
    if kept == Enforcement::Kernel {
        assert_eq!((exit.code, exit.ended_for), (Some(0), None), "{said}");
        assert!(said.contains("survived"), "{said}");
    } else {
        ended_for(&exit, "memory");
    }
}

/// Killed for want of memory is told from killed.
pub async fn tells_want_of_memory(world: &impl World) {
    let provider = world.provider();
    if provider.isolation().await.unwrap().memory != Enforcement::Kernel {
        eprintln!("left out: memory is not limited by the kernel here");
        return;
    }
    let script =
        "mkfifo pipe; head -c 400000000 /dev/zero > pipe & exec tail -c 400000000 < pipe > /dev/null";
    let (exit, said) = run(&*provider, MEMORY, script).await;
    assert_eq!((exit.code, exit.signal), (None, Some(9)), "{said}");
    assert!(exit.oom_kills >= 1 && !exit.killed_on_request, "{exit:?}");
    let (exit, _) = run(&*provider, MEMORY, "true").await;
    assert_eq!((exit.code, exit.oom_kills), (Some(0), 0), "enough is enough");
}

/// No more processes than allowed. The attempt is bounded in itself.
pub async fn keeps_processes(world: &impl World) {
    let provider = world.provider();
    let kept = provider.isolation().await.unwrap().pids;
    if kept == Enforcement::None {
        eprintln!("left out: processes are not limited here");
        return;
    }
    let script = "i=0; while [ $i -lt 150 ]; do sleep 20 & i=$((i+1)); done; echo all-150; sleep 15";
    let (exit, said) =
        run(&*provider, Limits { pids: Some(300), ..Limits::default() }, &script.replace("sleep 15", "true"))
            .await;
    assert!(exit.code == Some(0) && said.contains("all-150"), "allowed: {exit:?} {said}");
    let (exit, said) = run(&*provider, Limits { pids: Some(64), ..Limits::default() }, script).await;
    if kept == Enforcement::Kernel {
        assert!(exit.code != Some(0) && !said.contains("all-150"), "{exit:?} {said}");
        assert_eq!(exit.ended_for, None);
    } else {
        ended_for(&exit, "pids");
    }
}

/// The least and the most of a core that a busy sandbox with a fifth of one is seen to use. Below the least it
/// hardly ran, and nothing was shown.
const FIFTH_OF_A_CORE: std::ops::Range<f64> = 0.08..0.35;

/// A busy sandbox gets no more than its share, and it does get a share.
pub async fn keeps_processor_time(world: &impl World) {
    let provider = world.provider();
    if provider.isolation().await.unwrap().cpu != Enforcement::Kernel {
        eprintln!("left out: processor time is not limited by the kernel here");
        return;
    }
    let limits = Limits { cpu_millis: Some(200), ..Limits::default() };
    let id = start(&*provider, limits, "echo go; while :; do :; done").await;
    hear(&*provider, &id, "go").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Long enough for many periods of the limit.
        let (began, before) = (Instant::now(), provider.usage(&id).await.unwrap().cpu_ms);
        sleep(Duration::from_secs(2)).await;
        let used = provider.usage(&id).await.unwrap().cpu_ms - before;
        let share = Duration::from_millis(used).as_secs_f64() / began.elapsed().as_secs_f64();
        assert!(share < FIFTH_OF_A_CORE.end, "a fifth of a core was allowed, {share} were used");
        if FIFTH_OF_A_CORE.contains(&share) {
            break;
        }
        // Others may have had the machine; they will not have it for ever.
        assert!(Instant::now() < deadline, "it hardly runs at all: {share} of a core");
    }
    provider.delete(&id).await.unwrap();
}

/// A full disk is an error inside where the kernel keeps it, and the end where sampling does.
pub async fn keeps_disk(world: &impl World) {
    let provider = world.provider();
    let kept = provider.isolation().await.unwrap().disk;
    if kept == Enforcement::None {
        eprintln!("left out: disk is not limited here");
        return;
    }
    let limits = Limits { disk_bytes: Some(48 << 20), ..Limits::default() };
    let script = "head -c 8000000 /dev/zero > ~/small && echo fits; head -c 40000000 /dev/zero > $PLACE/big; echo end $?; sleep 20";
    let id = start(&*provider, limits, &script.replace("$PLACE", "/workspace")).await;
    hear(&*provider, &id, "fits").await;
    if kept == Enforcement::Kernel {
        hear(&*provider, &id, "end 1").await;
        let words = said(&*provider, &id).await;
        assert!(words.contains("No space left"), "{words}");
        assert!(provider.usage(&id).await.unwrap().disk_bytes > 30 << 20);
        assert_eq!(exec_in(&*provider, &id, "rm /workspace/big; echo x > /workspace/y").await.code, Some(0));
    } else {
        // Twice what is allowed: it holds until the next look.
        exec_in(&*provider, &id, "head -c 60000000 /dev/zero > ~/more || true").await;
        ended_for(&end_of(&*provider, &id).await, "disk");
    }
    provider.delete(&id).await.unwrap();
}

/// More than the host has is refused with the number that it has, and nothing is left.
pub async fn refuses_the_impossible(world: &impl World) {
    let provider = world.provider();
    let none = Limits::default();
    for limits in [
        Limits { memory_bytes: Some(1 << 60), ..none },
        Limits { cpu_millis: Some(4_000_000_000), ..none },
        Limits { memory_bytes: Some(1), ..none },
    ] {
        let id = sunaba_types::SandboxId::generate();
        let refused = provider.create(&id, &CreateRequest { limits, image: None }).await;
        let Err(Error::Refused(words)) = refused else { panic!("{limits:?}: {refused:?}") };
        assert!(words.chars().any(|c| c.is_ascii_digit()), "{words}");
        assert_eq!(provider.list().await.unwrap(), []);
    }
    let id = idle(&*provider).await;
    provider.delete(&id).await.unwrap();
}
