//! The table of attempts, by what they are at.

mod api;
mod cgroups;
mod devices;
mod files;
mod git;
mod kernel;
mod kernel_files;
mod limits;
mod mounts;
mod network;
mod others;
mod privileges;
mod processes;
mod secrets;
mod superseded;

use crate::attempt::{Attempt, Category};

/// What one sandbox tries, one after the other.
pub(crate) const CATEGORIES: &[Category] = &[
    Category { name: "files", attempts: files::ATTEMPTS },
    Category { name: "processes", attempts: processes::ATTEMPTS },
    Category { name: "mounts", attempts: mounts::ATTEMPTS },
    Category { name: "devices", attempts: devices::ATTEMPTS },
    Category { name: "kernel calls", attempts: kernel::ATTEMPTS },
    Category { name: "kernel files", attempts: kernel_files::ATTEMPTS },
    Category { name: "privileges", attempts: privileges::ATTEMPTS },
    Category { name: "cgroups", attempts: cgroups::ATTEMPTS },
    Category { name: "network", attempts: network::ATTEMPTS },
    Category { name: "others", attempts: others::ATTEMPTS },
    Category { name: "secrets", attempts: secrets::ATTEMPTS },
    Category { name: "api", attempts: api::ATTEMPTS },
    Category { name: "git", attempts: git::ATTEMPTS },
];

/// What is tried in sandboxes with small limits, each in one of its own, which may end with it.
pub(crate) const LIMITS: Category = Category { name: "limits", attempts: limits::ATTEMPTS };

/// The one of them that only a kernel's own limit on processor time stops.
pub(crate) const PROCESSOR: Attempt = limits::PROCESSOR;

/// What is tried with the token of an attempt that was superseded.
pub(crate) const SUPERSEDED: Category = Category { name: "superseded", attempts: superseded::ATTEMPTS };

/// Every attempt that the attacking sandbox makes.
pub(crate) fn attacks() -> impl Iterator<Item = (&'static str, &'static Attempt)> {
    CATEGORIES.iter().flat_map(|category| category.attempts.iter().map(|attempt| (category.name, attempt)))
}
