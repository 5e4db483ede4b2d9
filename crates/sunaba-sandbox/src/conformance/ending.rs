//! How a sandbox ends, and how its end is told.

use sunaba_types::shim::Limits;
use tokio::time::timeout;

use super::{PATIENCE, World, end_of, exec_in, hear, idle, run, shell, start};
use crate::{Error, Status};

/// An exit code above 128 is no signal.
pub async fn tells_a_code_from_a_signal(world: &impl World) {
    let provider = world.provider();
    let (exit, _) = run(&*provider, Limits::default(), "exit 137").await;
    assert_eq!((exit.code, exit.signal, exit.oom_kills), (Some(137), None, 0));
    let (exit, _) = run(&*provider, Limits::default(), "kill -9 $$").await;
    assert_eq!((exit.code, exit.signal, exit.oom_kills), (None, Some(9), 0));
    assert!(!exit.killed_on_request && exit.ended_for.is_none());
}

/// A kill ends everything, also what ignores signals and has left its session.
pub async fn tells_a_kill_from_an_end(world: &impl World) {
    let provider = world.provider();
    let script = "trap '' TERM HUP INT; (setsid sleep 600 &); echo ready; while :; do sleep 1; done";
    let id = start(&*provider, Limits::default(), script).await;
    hear(&*provider, &id, "ready").await;
    timeout(PATIENCE, provider.kill(&id)).await.expect("it ends").unwrap();
    let exit = end_of(&*provider, &id).await;
    assert_eq!((exit.code, exit.signal, exit.killed_on_request), (None, Some(9), true));
    assert_eq!(provider.status(&id).await.unwrap(), Status::Exited(exit));
    assert!(matches!(provider.exec(&id, super::exec("true")).await, Err(Error::AlreadyEnded(_))));
    provider.kill(&id).await.expect("killing again is harmless");
    provider.delete(&id).await.unwrap();
}

/// Asked to end, the command may tidy up and choose its code.
pub async fn lets_the_command_end_by_itself(world: &impl World) {
    let provider = world.provider();
    let script = "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let id = start(&*provider, Limits::default(), script).await;
    hear(&*provider, &id, "ready").await;
    provider.terminate(&id).await.unwrap();
    let exit = end_of(&*provider, &id).await;
    assert_eq!((exit.code, exit.killed_on_request), (Some(3), false));
    hear(&*provider, &id, "saved").await;
    provider.terminate(&id).await.expect("asking what is over to end is harmless");
    provider.delete(&id).await.unwrap();
}

/// One that has ended is over; a new attempt needs a new sandbox.
pub async fn does_not_start_again(world: &impl World) {
    let provider = world.provider();
    let id = start(&*provider, Limits::default(), "true").await;
    end_of(&*provider, &id).await;
    assert!(matches!(provider.start(&id, shell("true")).await, Err(Error::AlreadyEnded(_))));
    provider.delete(&id).await.unwrap();
    let id = idle(&*provider).await;
    provider.kill(&id).await.unwrap();
    assert!(matches!(provider.start(&id, shell("true")).await, Err(Error::AlreadyEnded(_))));
    provider.delete(&id).await.unwrap();
}

/// Several wait, before and after the end, and hear the same.
pub async fn waits_for_one_that_is_over(world: &impl World) {
    let provider = world.provider();
    let id = idle(&*provider).await;
    let stop = async {
        assert_eq!(exec_in(&*provider, &id, "true").await.code, Some(0));
        provider.kill(&id).await.unwrap();
    };
    let (one, two, ()) = tokio::join!(end_of(&*provider, &id), end_of(&*provider, &id), stop);
    assert_eq!(one, two);
    assert_eq!(end_of(&*provider, &id).await, one);
    provider.delete(&id).await.unwrap();
}
