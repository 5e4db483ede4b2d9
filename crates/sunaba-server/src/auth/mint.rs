//! Making tokens.

use sunaba_types::TokenKind;
use sunaba_types::chain::{Hash, hex, sha256};

/// A new token of this kind and the hash under which it is stored.
pub fn mint(kind: TokenKind) -> (String, Hash) {
    let secret = format!("sun_{kind}_{}", hex(&rand::random::<[u8; 32]>()));
    let hash = hash_of(&secret);
    (secret, hash)
}

/// A new sandbox token and its hash.
pub fn mint_sandbox() -> (String, Hash) {
    mint(TokenKind::Sandbox)
}

/// The hash under which a token is stored.
pub fn hash_of(secret: &str) -> Hash {
    sha256(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_kind_and_never_repeat() {
        let (one, hash) = mint(TokenKind::Sandbox);
        let (other, _) = mint(TokenKind::Sandbox);
        assert!(one.starts_with("sun_sandbox_"), "{one}");
        assert_eq!(one.len(), "sun_sandbox_".len() + 64);
        assert_ne!(one, other);
        assert_eq!(hash, hash_of(&one));
    }
}
