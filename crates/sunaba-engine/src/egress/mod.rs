//! Which hosts a sandbox may reach, and which addresses nobody's policy opens.
//!
//! A policy is a preset and a list of patterns; [`Policy::decide`] answers for
//! one host and port and names the rule that decided. It knows names only:
//! what a name resolves to is judged by [`refused_address`], by whoever
//! resolves it. A repository may only [`shrink`] what its project allows.

mod address;
mod host;
mod pattern;
mod policy;
mod private;
mod registries;
mod shrink;

pub use address::{is_public, refused_address};
pub use host::{BadHost, Host};
pub use pattern::{BadPattern, Pattern};
pub use policy::{ALLOW_MAX, Decision, InvalidEgress, Policy, check};
pub use private::PrivateHosts;
pub use registries::{Registry, registries};
pub use shrink::shrink;

#[cfg(test)]
mod tests;
