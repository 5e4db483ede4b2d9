//! The first token, from which all others are made.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sunaba_store::{NewToken, Store};
use sunaba_types::TokenKind;

use super::mint::{hash_of, mint};

/// Why there is no admin token.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The file cannot be read or written.
    #[error("cannot keep the admin token in {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] sunaba_store::Error),
}

/// Gives the admin token kept in `file`, or makes one, stores its hash and keeps it there (mode 0600).
///
/// A token in the file that the store does not know, or knows as revoked, is replaced.
pub async fn ensure_admin_token(store: &dyn Store, file: &Path) -> Result<String, EnsureError> {
    let failed = |source| EnsureError::File { path: file.display().to_string(), source };
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let secret = text.trim().to_owned();
            let record = store.find_token(&hash_of(&secret)).await?;
            if record.is_some_and(|r| r.kind == TokenKind::Admin && r.revoked_at.is_none()) {
                return Ok(secret);
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let (secret, hash) = mint(TokenKind::Admin);
    let token = NewToken {
        hash,
        name: "first admin".to_owned(),
        kind: TokenKind::Admin,
        scopes: Vec::new(),
        projects: Vec::new(),
        sandbox_id: None,
        attempt: None,
        expires_at: None,
    };
    store.create_token(token).await?;
    keep(file, &secret).map_err(failed)?;
    Ok(secret)
}

fn keep(file: &Path, secret: &str) -> std::io::Result<()> {
    let unfinished = file.with_extension("new");
    // A leftover of a crash might have other permissions.
    if let Err(error) = std::fs::remove_file(&unfinished)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut open = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    open.write_all(format!("{secret}\n").as_bytes())?;
    open.sync_all()?;
    std::fs::rename(&unfinished, file)
}
