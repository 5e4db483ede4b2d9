//! Which blobs exist and who stored them.

use async_trait::async_trait;
use sunaba_store::{BlobStore, Result, Writer};
use sunaba_types::{BlobHash, SandboxId};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::readable;
use crate::unit::{Needs, Unit};
use crate::writer::Command;

struct RecordBlob {
    hash: BlobHash,
    size_bytes: i64,
    sandbox_id: Option<SandboxId>,
    by: Writer,
}

#[async_trait]
impl Command<Unit> for RecordBlob {
    type Output = ();

    fn needs(&self, needs: &mut Needs) {
        if let (Some(id), Writer::Sandbox { .. }) = (&self.sandbox_id, self.by) {
            needs.sandbox(id);
        }
    }

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        if let (Some(id), Writer::Sandbox { .. }) = (&self.sandbox_id, self.by) {
            unit.draft.standing_sandbox(id, self.by)?;
        }
        let (hash, now) = (self.hash.as_str(), unit.now().as_microsecond());
        let owner = self.sandbox_id.as_ref().map_or("", SandboxId::as_str);
        sqlx::query!(
            "INSERT INTO blobs (hash, owner, size_bytes, created_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (hash, owner) DO NOTHING",
            hash,
            owner,
            self.size_bytes,
            now
        )
        .execute(unit.sql())
        .await?;
        Ok(())
    }
}

#[async_trait]
impl BlobStore for PostgresStore {
    async fn record_blob(
        &self,
        hash: &BlobHash,
        size_bytes: i64,
        sandbox_id: Option<&SandboxId>,
        by: Writer,
    ) -> Result<()> {
        let sandbox_id = sandbox_id.cloned();
        self.writer.run(RecordBlob { hash: hash.clone(), size_bytes, sandbox_id, by }).await
    }

    async fn blob_owners(&self, hash: &BlobHash) -> Result<Vec<Option<SandboxId>>> {
        let key = hash.as_str();
        let owners = sqlx::query_scalar!("SELECT owner FROM blobs WHERE hash = $1 ORDER BY owner", key)
            .fetch_all(&self.readers)
            .in_time()
            .await?;
        owners
            .into_iter()
            .map(|owner| match owner.as_str() {
                "" => Ok(None),
                _ => Ok(Some(readable(SandboxId::parse(owner).ok(), "blobs", "owner", key)?)),
            })
            .collect()
    }
}
