//! Names of secrets.

use sunaba_store::SecretName;

use super::{Unreadable, time};

/// A row of `secrets` without what is sealed.
#[derive(Debug)]
pub struct SecretNameRow {
    pub name: String,
    pub updated_at: i64,
}

impl TryFrom<SecretNameRow> for SecretName {
    type Error = Unreadable;

    fn try_from(row: SecretNameRow) -> Result<Self, Unreadable> {
        let updated_at = time(row.updated_at, "secrets", "updated_at", &row.name)?;
        Ok(Self { name: row.name, updated_at })
    }
}
