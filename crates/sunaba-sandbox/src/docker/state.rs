//! What the daemon's word about a container means.

use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum};

use super::places::Places;
use crate::{Exit, Status};

/// How high signals count, the real-time ones included.
const SIGNAL_MAX: i64 = 64;

/// Where the sandbox is. `None`: the daemon knows no such container.
///
/// `chosen` is the code that the command itself chose, where that is known.
pub(super) fn status(
    container: Option<&ContainerInspectResponse>,
    places: &Places,
    known: bool,
    chosen: Option<i64>,
) -> Status {
    let Some(state) = container.and_then(|container| container.state.as_ref()) else {
        return match (known, places.was_started()) {
            (false, _) => Status::Absent,
            (true, false) => Status::Prepared,
            (true, true) => Status::Lost,
        };
    };
    match state.status {
        Some(ContainerStateStatusEnum::CREATED) => Status::Prepared,
        Some(ContainerStateStatusEnum::EXITED | ContainerStateStatusEnum::DEAD) => {
            let code = state.exit_code.unwrap_or(-1);
            let told = if chosen == Some(code) { (i32::try_from(code).ok(), None) } else { split(code) };
            Status::Exited(exit(told, state.oom_killed == Some(true), places))
        }
        Some(ContainerStateStatusEnum::REMOVING) => Status::Lost,
        _ => Status::Running,
    }
}

/// Whether its removal began and was cut off.
pub(super) fn is_dead(container: &ContainerInspectResponse) -> bool {
    let status = container.state.as_ref().and_then(|state| state.status);
    matches!(status, Some(ContainerStateStatusEnum::DEAD | ContainerStateStatusEnum::REMOVING))
}

fn exit((code, signal): (Option<i32>, Option<i32>), out_of_memory: bool, places: &Places) -> Exit {
    Exit {
        code,
        signal,
        oom_kills: u64::from(out_of_memory),
        ended_for: places.ended_for(),
        killed_on_request: places.was_killed(),
        error: None,
    }
}

/// Tells a code from a signal: a container says both in one number, as a shell does.
pub(super) fn split(number: i64) -> (Option<i32>, Option<i32>) {
    let small = i32::try_from(number).ok();
    if (129..=128 + SIGNAL_MAX).contains(&number) {
        return (None, small.map(|number| number - 128));
    }
    (small, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_from_a_code() {
        assert_eq!(split(0), (Some(0), None));
        assert_eq!(split(3), (Some(3), None));
        assert_eq!(split(128), (Some(128), None));
        assert_eq!(split(137), (None, Some(9)));
        assert_eq!(split(143), (None, Some(15)));
        assert_eq!(split(255), (Some(255), None));
    }
}
