//! Several servers on one database: who they are, whether they live, how one asks another.
//!
//! A node is one server with its data directory. It has an id that is kept there, says
//! every few seconds that it lives ([`Heart`]), knows the others from their rows ([`Nodes`])
//! and asks them over HTTP for what only they have ([`Nodes::ask`]): a project's mirror, a
//! sandbox's output, a blob. A node without others is the same thing, alone.
//!
//! What nodes say to each other is opened by one token, derived from the key that they
//! share. The database is the truth about everything but the bytes on a node's disk.

mod ask;
mod book;
mod error;
mod heart;
mod identity;
mod loops;
pub mod wire;

pub use ask::RETRY;
pub use book::{Nodes, Where};
pub use error::Error;
pub use heart::{Heart, Taken};
pub use identity::{IdentityError, host, new_instance, read_or_make_id};
pub use loops::{LoopReport, Loops};
