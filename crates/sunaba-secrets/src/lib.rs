//! Seals projects' secrets before they are stored and opens them where they are used.
//!
//! A [`Vault`] holds the server's one key. A sealed value is bound to its project
//! and name: copied to another row it does not open. [`Secrets`] is the vault
//! together with the store. Nothing here is ever shown, logged or serialised.

mod key;
mod vault;

pub use key::{KeyError, SecretKey};
pub use vault::{CannotOpen, Vault};

/// What values are handed in and out as: never shown by accident.
pub use secrecy::{ExposeSecret, SecretString};

use std::sync::Arc;

use sunaba_store::{SecretName, Store};
use sunaba_types::ProjectId;

/// The setting that holds the vault's check value.
const CHECK_SETTING: &str = "secret_check";

/// Why secrets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is not the one that sealed what is stored.
    #[error("{0}")]
    WrongKey(#[from] CannotOpen),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] sunaba_store::Error),
}

/// Secrets of projects, sealed in the store.
#[derive(Debug, Clone)]
pub struct Secrets {
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
}

impl Secrets {
    /// Takes the vault into use; refuses a key that is not the one this store was first used with.
    pub async fn open(store: Arc<dyn Store>, vault: Vault) -> Result<Self, Error> {
        let held = store.set_setting_once(CHECK_SETTING, &vault.check_value()).await?;
        vault.verify(&held)?;
        Ok(Self { store, vault: Arc::new(vault) })
    }

    /// Seals and stores a value.
    pub async fn put(
        &self,
        project: &ProjectId,
        name: &str,
        value: &SecretString,
    ) -> Result<SecretName, Error> {
        let sealed = self.vault.seal(project, name, value);
        Ok(self.store.put_secret(project, name, &sealed).await?)
    }

    /// Opens a stored value.
    pub async fn find(&self, project: &ProjectId, name: &str) -> Result<Option<SecretString>, Error> {
        match self.store.find_secret(project, name).await? {
            Some(sealed) => Ok(Some(self.vault.unseal(project, name, &sealed)?)),
            None => Ok(None),
        }
    }

    /// The names.
    pub async fn list(&self, project: &ProjectId) -> Result<Vec<SecretName>, Error> {
        Ok(self.store.list_secrets(project).await?)
    }

    /// Forgets a value; `false` if there was none.
    pub async fn delete(&self, project: &ProjectId, name: &str) -> Result<bool, Error> {
        Ok(self.store.delete_secret(project, name).await?)
    }
}
