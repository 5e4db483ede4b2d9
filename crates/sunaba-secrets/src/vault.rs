//! Sealing and opening.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{Aead as _, Generate as _, KeyInit as _, Nonce, Payload};
use secrecy::{ExposeSecret as _, SecretString};
use sunaba_types::ProjectId;
use zeroize::Zeroizing;

use crate::SecretKey;

const NONCE_BYTES: usize = 24;
/// What the check value holds, sealed.
const CHECK_WORDS: &[u8] = b"sunaba secrets, version 1";
const CHECK_PLACE: &[u8] = b"check";

/// The sealed value does not open with this key.
#[derive(Debug, thiserror::Error)]
#[error(
    "the secret key is not the one that sealed this server's secrets; start with the key it was first started \
     with (SUNABA_SECRET_KEY, SUNABA_SECRET_KEY_FILE, or secret.key in its data directory)"
)]
pub struct CannotOpen;

/// The server's key, ready to seal and open.
pub struct Vault(XChaCha20Poly1305);

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault(…)")
    }
}

impl Vault {
    /// A vault with this key.
    pub fn new(key: &SecretKey) -> Self {
        Self(XChaCha20Poly1305::new((&*key.0).into()))
    }

    /// Seals a value for one project and name.
    pub fn seal(&self, project: &ProjectId, name: &str, value: &SecretString) -> Vec<u8> {
        self.close(&place(project, name), value.expose_secret().as_bytes())
    }

    /// Opens what was sealed for this project and name.
    pub fn unseal(&self, project: &ProjectId, name: &str, sealed: &[u8]) -> Result<SecretString, CannotOpen> {
        let plain = Zeroizing::new(self.reveal(&place(project, name), sealed)?);
        let text = std::str::from_utf8(&plain).map_err(|_| CannotOpen)?;
        Ok(SecretString::from(text))
    }

    /// A value that only this key can have made; kept in the store to recognise the key again.
    pub fn check_value(&self) -> String {
        STANDARD.encode(self.close(CHECK_PLACE, CHECK_WORDS))
    }

    /// Whether this key made that check value.
    pub fn verify(&self, check: &str) -> Result<(), CannotOpen> {
        let sealed = STANDARD.decode(check).map_err(|_| CannotOpen)?;
        let words = self.reveal(CHECK_PLACE, &sealed)?;
        if words == CHECK_WORDS { Ok(()) } else { Err(CannotOpen) }
    }

    fn close(&self, place: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce = Nonce::<XChaCha20Poly1305>::generate();
        let sealed = self.0.encrypt(&nonce, Payload { msg: plain, aad: place });
        // It fails only for more bytes than a request can hold.
        let mut all = nonce.to_vec();
        all.extend(sealed.expect("a value of bounded size can be sealed"));
        all
    }

    fn reveal(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CannotOpen> {
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES).ok_or(CannotOpen)?;
        let nonce = Nonce::<XChaCha20Poly1305>::try_from(nonce).map_err(|_| CannotOpen)?;
        self.0.decrypt(&nonce, Payload { msg: body, aad: place }).map_err(|_| CannotOpen)
    }
}

/// What a sealed value is bound to. A NUL cannot be in an id.
fn place(project: &ProjectId, name: &str) -> Vec<u8> {
    [project.as_str().as_bytes(), b"\0", name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KEY_BYTES;

    fn vault(byte: u8) -> Vault {
        Vault::new(&SecretKey(Zeroizing::new([byte; KEY_BYTES])))
    }

    #[test]
    fn a_value_opens_only_in_its_place_and_with_its_key() {
        let (one, other) = (ProjectId::generate(), ProjectId::generate());
        let sealed = vault(1).seal(&one, "KEY", &SecretString::from("hush"));
        assert_eq!(vault(1).unseal(&one, "KEY", &sealed).unwrap().expose_secret(), "hush");
        assert!(vault(1).unseal(&other, "KEY", &sealed).is_err());
        assert!(vault(1).unseal(&one, "OTHER", &sealed).is_err());
        assert!(vault(2).unseal(&one, "KEY", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert!(vault(1).unseal(&one, "KEY", &bent).is_err());
        }
        assert!(vault(1).unseal(&one, "KEY", &sealed[..10]).is_err());
        assert!(!sealed.windows(4).any(|bytes| bytes == b"hush"));
    }

    #[test]
    fn the_check_value_knows_its_key() {
        let check = vault(1).check_value();
        assert!(vault(1).verify(&check).is_ok());
        assert!(vault(2).verify(&check).is_err());
        assert!(vault(1).verify("rubbish").is_err());
        assert_ne!(check, vault(1).check_value(), "no nonce is used twice");
    }
}
