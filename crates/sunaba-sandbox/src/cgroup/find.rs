//! Finds where groups can be made, by making one and moving a process into it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::{AccessFlags, access};
use sunaba_types::shim::Limits;

use super::group::{Groups, set_limits};
use super::mounts::{Mounted, View};
use super::own::probe_name;
use super::{Controller, Hierarchy, Version};

/// What of a version 2 hierarchy is handed down to the groups of sandboxes.
const UNIFIED: [(&str, Controller, &str); 3] = [
    ("memory", Controller::Memory, "memory.max"),
    ("cpu", Controller::Cpu, "cpu.max"),
    ("pids", Controller::Pids, "pids.max"),
];
/// Small enough for any host to accept, large enough for the process that is moved.
const TRIED: Limits =
    Limits { memory_bytes: Some(256 << 20), cpu_millis: Some(1000), pids: Some(64), disk_bytes: None };

/// One hierarchy as it was found, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its interface.
    pub version: Version,
    /// Version 1: the controllers it holds.
    pub names: Vec<String>,
    /// Where it is mounted.
    pub point: PathBuf,
    /// What can be used, or why nothing can.
    pub usable: Result<Hierarchy, String>,
}

/// The hierarchies in which this server can make groups, tried out.
pub fn find(view: &View, tag: &str) -> Vec<Hierarchy> {
    look(view, tag).into_iter().filter_map(|seen| seen.usable.ok()).collect()
}

/// Every hierarchy that holds something of use, with what a try showed.
pub fn look(view: &View, tag: &str) -> Vec<Seen> {
    let mounted = view.mounted().unwrap_or_default();
    mounted
        .into_iter()
        .filter(|mounted| mounted.version == Version::V2 || mounted.names.iter().any(|name| is_of_use(name)))
        .map(|mounted| Seen {
            usable: try_mounted(&mounted, tag),
            version: mounted.version,
            names: mounted.names,
            point: mounted.point,
        })
        .collect()
}

fn is_of_use(name: &str) -> bool {
    // systemd's own hierarchy limits nothing, but a stopped service is ended by it.
    first_version(name).is_some() || name == "name=systemd"
}

fn first_version(name: &str) -> Option<Controller> {
    match name {
        "memory" => Some(Controller::Memory),
        "cpu" => Some(Controller::Cpu),
        "pids" => Some(Controller::Pids),
        "cpuacct" => Some(Controller::Account),
        _ => None,
    }
}

/// From the top down: the higher the group, the less of others' limits and ends it shares.
fn bases(mounted: &Mounted) -> Vec<PathBuf> {
    let own = mounted.own.clone().unwrap_or_else(|| mounted.point.clone());
    let mut bases: Vec<PathBuf> =
        own.ancestors().take_while(|path| path.starts_with(&mounted.point)).map(Path::to_owned).collect();
    bases.reverse();
    bases
}

fn try_mounted(mounted: &Mounted, tag: &str) -> Result<Hierarchy, String> {
    let mut reason = "not writable for this user".to_owned();
    for base in bases(mounted) {
        if access(&base, AccessFlags::W_OK).is_err() {
            continue;
        }
        match try_base(mounted, &base, tag) {
            Ok(hierarchy) => return Ok(hierarchy),
            Err(error) => reason = format!("{}: {error}", base.display()),
        }
    }
    Err(reason)
}

fn try_base(mounted: &Mounted, base: &Path, tag: &str) -> io::Result<Hierarchy> {
    let controllers = match mounted.version {
        Version::V1 => mounted.names.iter().filter_map(|name| first_version(name)).collect(),
        Version::V2 => handed_down(base)?,
    };
    let mut hierarchy = Hierarchy { version: mounted.version, base: base.to_owned(), controllers };
    let group = Groups::new(vec![hierarchy.clone()], tag, &probe_name());
    let tried = try_group(&mut hierarchy, &group);
    let removed = group.remove();
    group.remove_parents();
    tried.and(removed).map(|()| hierarchy)
}

fn handed_down(base: &Path) -> io::Result<Vec<Controller>> {
    let there = fs::read_to_string(base.join("cgroup.controllers"))?;
    let there: Vec<&str> = there.split_whitespace().collect();
    let mut controllers: Vec<Controller> = UNIFIED
        .iter()
        .filter(|(name, ..)| there.contains(name))
        .map(|(_, controller, _)| *controller)
        .collect();
    controllers.push(Controller::Kill);
    Ok(controllers)
}

/// Makes the group, sees which of its controllers are really there, and moves a process in.
fn try_group(hierarchy: &mut Hierarchy, group: &Groups) -> io::Result<()> {
    group.make(&Limits::default())?;
    let dirs = group.dirs();
    let Some(dir) = dirs.first() else { return Err(io::Error::other("no group")) };
    if hierarchy.version == Version::V2 {
        hierarchy.controllers.retain(|controller| {
            let file =
                UNIFIED.iter().find(|(_, one, _)| one == controller).map_or("cgroup.kill", |(.., file)| file);
            dir.join(file).exists()
        });
        if hierarchy.has(Controller::Cpu) {
            hierarchy.controllers.push(Controller::Account);
        }
    }
    set_limits(dir, hierarchy, &TRIED)?;
    let mut child = Waiting::start()?;
    let moved = group.take_in(child.pid()).and_then(|()| {
        let inside = group.processes().contains(&child.pid());
        inside.then_some(()).ok_or_else(|| io::Error::other("a process that was moved in is not there"))
    });
    child.end();
    moved
}

/// A process that does nothing until it is ended.
struct Waiting(Child);

impl Waiting {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/cat");
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().map(Self)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap_or_default()
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}
