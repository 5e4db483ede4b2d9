//! Who asks, and what that opens.
//!
//! A token is `sun_<kind>_<64 hex digits>`; only its SHA-256 is stored. Three
//! kinds: admin (everything), personal (its scopes in its projects), sandbox
//! (its own sandbox, the worker's routes). What a caller may not see answers
//! as if it did not exist.

mod bootstrap;
mod cache;
mod credentials;
mod guards;
mod identity;
mod mint;

pub use bootstrap::{EnsureError, ensure_admin_token};
pub(crate) use cache::TokenCache;
pub(crate) use credentials::from_headers;
pub use credentials::from_query;
pub(crate) use guards::{Admin, Editor, Reader, may_see_sandbox, may_write, visible_sandbox};
pub use identity::{Grant, Identity, Role, SandboxGrant};
pub use mint::{hash_of, mint, mint_sandbox};
