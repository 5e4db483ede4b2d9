//! Reading requests: bodies, query strings and path ids, with an error for every field at fault.

mod body;
mod fields;
pub(crate) mod list;
mod params;
mod path;

pub(crate) use body::{BodyBudget, JsonBody};
pub(crate) use fields::{Fields, Text};
pub(crate) use params::Params;
pub(crate) use path::{BlobPath, IdPath, QuestionPath, SecretPath, SessionPath};
