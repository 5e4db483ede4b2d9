//! Model calls that are not settled.

use sunaba_store::OpenCall;
use sunaba_types::{CallId, SandboxId};

use super::{Unreadable, readable, time};

/// A row of `model_calls`, as far as it matters while the call is open.
#[derive(Debug)]
pub struct OpenCallRow {
    pub id: String,
    pub sandbox_id: String,
    pub dialect: String,
    pub model: String,
    pub reserved_micros: i64,
    pub created_at: i64,
}

impl TryFrom<OpenCallRow> for OpenCall {
    type Error = Unreadable;

    fn try_from(row: OpenCallRow) -> Result<Self, Self::Error> {
        const TABLE: &str = "model_calls";
        let key = row.id.clone();
        Ok(Self {
            id: readable(CallId::parse(row.id).ok(), TABLE, "id", &key)?,
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            dialect: row.dialect,
            model: row.model,
            micros: row.reserved_micros,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
        })
    }
}
