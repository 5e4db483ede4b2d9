//! What happens to every request before and after its handler.

pub(crate) mod gate;
pub(crate) mod measure;
pub(crate) mod observe;
pub(crate) mod patience;
pub(crate) mod rate;
pub mod token_path;
