//! Each control group controller, on its own.

use std::path::Path;

use sunaba_types::Finding;

use super::{Host, ok, weaker};
use crate::cgroup::{self, Controller, Seen, Version, View};

const DELEGATE: &str = "run the server as root, or give its user the controllers: \
                        systemctl edit user@.service, [Service] Delegate=cpu memory pids";

pub(super) async fn controllers(host: &Host, data: &Path) -> Vec<Finding> {
    let (view, tag) = (View { own_proc: host.proc.join("self") }, cgroup::tag(data));
    let seen = tokio::task::spawn_blocking(move || cgroup::look(&view, &tag)).await.unwrap_or_default();
    [
        ("memory", Controller::Memory, "limits are kept by looking several times a second"),
        ("cpu", Controller::Cpu, "a sandbox is held to whole cores instead"),
        ("pids", Controller::Pids, "limits are kept by looking several times a second"),
        ("kill", Controller::Kill, "sandboxes are ended by their first process"),
    ]
    .into_iter()
    .map(|(name, controller, instead)| finding(&seen, name, controller, instead))
    .collect()
}

fn finding(seen: &[Seen], name: &str, controller: Controller, instead: &str) -> Finding {
    let title = format!("cgroup {name}");
    let usable = seen.iter().find_map(|one| one.usable.as_ref().ok().filter(|found| found.has(controller)));
    if let Some(found) = usable {
        return ok(&title, format!("{} at {}", version(found.version), found.base.display()));
    }
    let holds = |one: &&Seen| match one.version {
        Version::V1 => one.names.iter().any(|held| held == name),
        Version::V2 => false,
    };
    let there = seen.iter().find(holds).or_else(|| seen.iter().find(|one| one.version == Version::V2));
    let detail = match there {
        None => format!("no hierarchy is mounted; {instead}"),
        Some(one) => {
            let why = one.usable.as_ref().err().map_or("not handed down", String::as_str);
            format!("{} at {}: {why}; {instead}", version(one.version), one.point.display())
        }
    };
    let remedy = match there {
        None => "mount -t cgroup2 none /sys/fs/cgroup",
        Some(_) => DELEGATE,
    };
    weaker(&title, detail, remedy)
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::V1 => "version 1",
        Version::V2 => "version 2",
    }
}
