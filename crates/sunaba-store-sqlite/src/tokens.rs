//! Tokens, stored by their hash.

use async_trait::async_trait;
use sunaba_store::{NewToken, Result, TokenStore};
use sunaba_types::chain::Hash;
use sunaba_types::{ProjectId, SandboxId, Timestamp, TokenId, TokenKind, TokenRecord};

use crate::SqliteStore;
use crate::fault::{Fault, Unreadable, told};
use crate::rows::{all, list, maybe_time, readable, time};
use crate::unit::Unit;
use crate::writer::Command;

/// Selects whole tokens (`k`), without the hash.
macro_rules! token_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            TokenRow,
            r#"SELECT k.id AS "id!", k.name AS "name!", k.kind AS "kind!", k.scopes AS "scopes!",
                      k.projects AS "projects!", k.sandbox_id, k.attempt, k.created_at AS "created_at!",
                      k.expires_at, k.revoked_at
               FROM tokens AS k "# + $tail
            $(, $arg)*
        )
    };
}

#[derive(Debug)]
struct TokenRow {
    id: String,
    name: String,
    kind: String,
    scopes: String,
    projects: String,
    sandbox_id: Option<String>,
    attempt: Option<i64>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl TryFrom<TokenRow> for TokenRecord {
    type Error = Unreadable;

    fn try_from(row: TokenRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "tokens";
        let key = row.id.clone();
        // A token whose bounds cannot be read must open nothing, so these fail instead of being dropped.
        let sandbox_id = row
            .sandbox_id
            .map(|id| readable(SandboxId::parse(id).ok(), TABLE, "sandbox_id", &key))
            .transpose()?;
        Ok(Self {
            id: readable(TokenId::parse(row.id).ok(), TABLE, "id", &key)?,
            name: row.name,
            kind: readable(TokenKind::parse(&row.kind), TABLE, "kind", &key)?,
            scopes: readable(serde_json::from_str(&row.scopes).ok(), TABLE, "scopes", &key)?,
            projects: readable(serde_json::from_str(&row.projects).ok(), TABLE, "projects", &key)?,
            sandbox_id,
            attempt: row.attempt,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            expires_at: maybe_time(row.expires_at, TABLE, "expires_at", &key)?,
            revoked_at: maybe_time(row.revoked_at, TABLE, "revoked_at", &key)?,
        })
    }
}

struct CreateToken(NewToken);

#[async_trait]
impl Command<Unit> for CreateToken {
    type Output = TokenRecord;

    async fn run(&self, unit: &mut Unit) -> Result<TokenRecord, Fault> {
        let new = &self.0;
        let record = TokenRecord {
            id: TokenId::generate(),
            name: new.name.clone(),
            kind: new.kind,
            scopes: new.scopes.clone(),
            projects: new.projects.clone(),
            sandbox_id: new.sandbox_id.clone(),
            attempt: new.attempt,
            created_at: unit.now(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let (id, hash, kind) = (record.id.as_str(), new.hash.to_vec(), record.kind.as_str());
        let scopes = list(record.scopes.iter().map(String::as_str));
        let projects = list(record.projects.iter().map(ProjectId::as_str));
        let sandbox_id = record.sandbox_id.as_ref().map(SandboxId::as_str);
        let created = record.created_at.as_microsecond();
        let expires = record.expires_at.map(Timestamp::as_microsecond);
        sqlx::query!(
            "INSERT INTO tokens (id, hash, name, kind, scopes, projects, sandbox_id, attempt, created_at,
                                 expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            id,
            hash,
            record.name,
            kind,
            scopes,
            projects,
            sandbox_id,
            record.attempt,
            created,
            expires
        )
        .execute(unit.sql())
        .await?;
        Ok(record)
    }
}

struct RevokeToken(TokenId);

#[async_trait]
impl Command<Unit> for RevokeToken {
    type Output = Option<TokenRecord>;

    async fn run(&self, unit: &mut Unit) -> Result<Option<TokenRecord>, Fault> {
        let (id, now) = (self.0.as_str(), unit.now().as_microsecond());
        sqlx::query!("UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL", id, now)
            .execute(unit.sql())
            .await?;
        let row = token_query!("WHERE k.id = ?1", id).fetch_optional(unit.sql()).await?;
        Ok(row.map(TokenRecord::try_from).transpose()?)
    }
}

struct RevokeTokensOf(SandboxId);

#[async_trait]
impl Command<Unit> for RevokeTokensOf {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let (id, now) = (self.0.as_str(), unit.now().as_microsecond());
        sqlx::query!(
            "UPDATE tokens SET revoked_at = ?2 WHERE sandbox_id = ?1 AND revoked_at IS NULL",
            id,
            now
        )
        .execute(unit.sql())
        .await?;
        Ok(())
    }
}

#[async_trait]
impl TokenStore for SqliteStore {
    async fn create_token(&self, token: NewToken) -> Result<TokenRecord> {
        self.writer.run(CreateToken(token)).await
    }

    async fn find_token(&self, hash: &Hash) -> Result<Option<TokenRecord>> {
        let hash = hash.to_vec();
        let row =
            token_query!("WHERE k.hash = ?1", hash).fetch_optional(&self.readers).await.map_err(told)?;
        Ok(row.map(TokenRecord::try_from).transpose()?)
    }

    async fn list_tokens(&self) -> Result<Vec<TokenRecord>> {
        let rows = token_query!("WHERE k.kind <> 'sandbox' ORDER BY k.created_at DESC, k.id DESC LIMIT 1000")
            .fetch_all(&self.readers)
            .await
            .map_err(told)?;
        Ok(all(rows)?)
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        self.writer.run(RevokeToken(id.clone())).await
    }

    async fn revoke_tokens_of(&self, sandbox_id: &SandboxId) -> Result<()> {
        self.writer.run(RevokeTokensOf(sandbox_id.clone())).await
    }
}
