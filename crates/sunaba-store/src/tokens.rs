//! Tokens, stored by their hash.

use async_trait::async_trait;
use sunaba_types::chain::Hash;
use sunaba_types::{ProjectId, SandboxId, Timestamp, TokenId, TokenKind, TokenRecord};

use crate::Result;

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// SHA-256 of the token.
    pub hash: Hash,
    /// What people call it.
    pub name: String,
    /// What it opens.
    pub kind: TokenKind,
    /// For a personal token: `read`, `write`.
    pub scopes: Vec<String>,
    /// For a personal token: the projects; empty means all.
    pub projects: Vec<ProjectId>,
    /// For a sandbox token: the sandbox.
    pub sandbox_id: Option<SandboxId>,
    /// For a sandbox token: the attempt it is bound to.
    pub attempt: Option<i64>,
    /// After this it opens nothing.
    pub expires_at: Option<Timestamp>,
}

/// Tokens.
#[async_trait]
pub trait TokenStore {
    /// Stores a token.
    async fn create_token(&self, token: NewToken) -> Result<TokenRecord>;
    /// The token with this hash, also when it is revoked or expired: the caller says which.
    async fn find_token(&self, hash: &Hash) -> Result<Option<TokenRecord>>;
    /// Admin and personal tokens, newest first.
    async fn list_tokens(&self) -> Result<Vec<TokenRecord>>;
    /// Revokes a token; revoking twice is harmless. `None` if there is none.
    async fn revoke_token(&self, id: &TokenId) -> Result<Option<TokenRecord>>;
    /// Revokes every token of a sandbox, whoever made them and when.
    async fn revoke_tokens_of(&self, sandbox_id: &SandboxId) -> Result<()>;
}
