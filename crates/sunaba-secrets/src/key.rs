//! The server's key: given, or made once and kept in a file that only the server may read.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{Generate as _, Key};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
/// A key file is one line; more is something else.
const FILE_MAX_BYTES: u64 = 4096;

/// 32 random bytes.
pub struct SecretKey(pub(crate) Zeroizing<[u8; KEY_BYTES]>);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not a key.
    #[error("the secret key from {0} is not 32 bytes in base64; make one with `openssl rand -base64 32`")]
    Malformed(String),
    /// Others can read the file.
    #[error("{0} can be read by others; run `chmod 600 {0}`")]
    Readable(PathBuf),
    /// The file cannot be used.
    #[error("the secret key file {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SecretKey {
    /// Reads a key as it is written in `SUNABA_SECRET_KEY`; `from` names the place in errors.
    pub fn parse(text: &SecretString, from: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::Malformed(from.to_owned());
        let bytes = Zeroizing::new(STANDARD.decode(text.expose_secret().trim()).map_err(|_| malformed())?);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != KEY_BYTES {
            return Err(malformed());
        }
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    /// Reads a key file, which must be readable for its owner only.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(KeyError::Readable(path.to_owned()));
        }
        let mut text = Zeroizing::new(String::new());
        file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&SecretString::from(text.as_str()), &path.display().to_string())
    }

    /// A secret for one purpose that all who have this key can tell and that does not tell the key.
    pub fn derive(&self, purpose: &str) -> SecretString {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("a MAC takes a key of any length");
        mac.update(b"sunaba, derived, version 1\0");
        mac.update(purpose.as_bytes());
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        SecretString::from(STANDARD_NO_PAD.encode(digest))
    }

    /// Reads the key file, or makes it, once, with mode 0600.
    pub fn read_or_make(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        if !path.exists() {
            let key = Zeroizing::new(<[u8; KEY_BYTES]>::from(Key::<XChaCha20Poly1305>::generate()));
            let text = Zeroizing::new(format!("{}\n", STANDARD.encode(*key)));
            // Under another name first: a crash in between leaves no half key.
            let draft = path.with_extension("new");
            let _ = fs::remove_file(&draft);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
            // Never over a key that another process made in between.
            match fs::hard_link(&draft, path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => fs::remove_file(&draft).map_err(failed)?,
            }
        }
        Self::read(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret.key");
        let first = SecretKey::read_or_make(&path).unwrap();
        let again = SecretKey::read_or_make(&path).unwrap();
        assert_eq!(*first.0, *again.0);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft stays behind");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SecretKey::read_or_make(&path), Err(KeyError::Readable(_))));
    }

    #[test]
    fn what_is_derived_depends_on_key_and_purpose() {
        let key = |byte| SecretKey(Zeroizing::new([byte; KEY_BYTES]));
        let derived = |byte, purpose| key(byte).derive(purpose).expose_secret().to_owned();
        assert_eq!(derived(1, "nodes"), derived(1, "nodes"));
        assert_ne!(derived(1, "nodes"), derived(1, "other"));
        assert_ne!(derived(1, "nodes"), derived(2, "nodes"));
        assert_eq!(derived(1, "nodes").len(), 43);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "short", &"A".repeat(44), "@@@@"] {
            let refused = SecretKey::parse(&SecretString::from(text), "SUNABA_SECRET_KEY");
            assert!(matches!(refused, Err(KeyError::Malformed(_))), "{text}");
        }
    }
}
