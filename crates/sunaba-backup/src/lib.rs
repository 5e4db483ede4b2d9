//! Everything of a server in one archive: writing it, checking it, restoring it on either store.
//!
//! A tar file, in this order:
//!
//! ```text
//! manifest.json                       what it is and who made it
//! tables/<table>/<number>.jsonl       rows, one JSON list a line, in the order of sunaba_store::transfer::TABLES
//! blobs/<ab>/<hash>                   this node's blobs
//! git/<project>.git/…                 this node's mirrors
//! trailer.json                        the SHA-256 of every byte before it, and the sums of all tables
//! ```
//!
//! Rows are of one moment; files are taken after it, so that everything a row speaks of is there. Without a
//! trailer whose sum is right an archive is not whole, and nothing of it is restored. The secret key is never in
//! it. Memory is bounded by a batch of rows and a piece of a file.

mod error;
mod manifest;
mod mirrors;
mod read;
mod restore;
mod tape;
mod write;

pub use error::Error;
pub use manifest::{Contents, Manifest, Trailer};
pub use read::{Backup, inspect};
pub use restore::restore;
pub use write::{Parts, write};

/// A piece of an archive on its way.
pub type Piece = std::io::Result<bytes::Bytes>;
