//! How many files and connections this process may have open at once.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Enough for everything here; programs that are started inherit it, and some walk over all of it.
const WANTED: u64 = 65_536;
/// Most connections of people and programs, whatever the process may have open.
const TCP_MOST: usize = 10_000;
/// Most connections of one sandbox.
const DOOR_MOST: usize = 128;
/// What a sandbox's worker needs to work at all.
const DOOR_FEWEST: usize = 16;

/// The limit of this process, raised as far as is useful and allowed.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
        let wanted = hard.min(WANTED);
        let raised = soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok();
        usize::try_from(if raised { wanted } else { soft }).unwrap_or(usize::MAX)
    })
}

/// How many TCP connections may be open: half of what there is, so that doors, the store and git have theirs.
pub(crate) fn tcp_connections() -> usize {
    share(limit(), 2, TCP_MOST, 1)
}

/// How many connections one sandbox may have open: never so many that a few sandboxes take everything.
pub(crate) fn door_connections() -> usize {
    share(limit(), 64, DOOR_MOST, DOOR_FEWEST)
}

fn share(limit: usize, part: usize, most: usize, fewest: usize) -> usize {
    (limit / part).clamp(fewest, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_leaves_room_for_the_others() {
        assert_eq!(share(65_536, 2, TCP_MOST, 1), 10_000);
        assert_eq!(share(1024, 2, TCP_MOST, 1), 512);
        assert_eq!(share(65_536, 64, DOOR_MOST, DOOR_FEWEST), 128);
        assert_eq!(share(256, 64, DOOR_MOST, DOOR_FEWEST), 16);
        assert!(tcp_connections() <= limit() / 2 || limit() < 2);
    }
}
