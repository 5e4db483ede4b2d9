//! Taking one event in.

use sunaba_store::{AppendOutcome, Rejection, Writer};
use sunaba_store_sql::draft::{KnownRow, OnMessages, Taken, external_sandbox};
use sunaba_types::{NewEvent, SandboxId};

use super::Unit;
use crate::fault::Fault;

impl Unit {
    /// Finds out, in one query, which of these ids are taken.
    pub(super) async fn recall_events(
        &mut self,
        appends: &[(&SandboxId, &[NewEvent])],
    ) -> Result<(), sqlx::Error> {
        let pairs: Vec<(&str, &str)> = appends
            .iter()
            .flat_map(|(id, events)| events.iter().map(|event| (id.as_str(), event.event_id.as_str())))
            .collect();
        if pairs.is_empty() {
            return Ok(());
        }
        let asked = json(&pairs);
        let found = sqlx::query_as!(
            KnownRow,
            r#"SELECT e.sandbox_id, e.event_id, e.seq, e.created_at, e.event_type, e.source,
                      e.payload_hash, e.step
               FROM json_each(?1) AS asked
               CROSS JOIN events AS e
                 ON e.sandbox_id = asked.value ->> 0 AND e.event_id = asked.value ->> 1"#,
            asked
        )
        .fetch_all(self.sql())
        .await?;
        for row in found {
            self.draft.recall(row)?;
        }
        Ok(())
    }

    /// Takes one event in. An `Err` is SQLite's; whatever the rules refuse is in the outcome.
    pub(super) async fn ingest_event(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> Result<AppendOutcome, sqlx::Error> {
        match self.try_ingest(id, writer, event).await {
            Ok(outcome) => Ok(outcome),
            Err(Fault::Sql(error)) => Err(error),
            Err(Fault::Refused(error)) => Ok(Err(Rejection::Refused(error.to_string()))),
        }
    }

    async fn try_ingest(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> Result<AppendOutcome, Fault> {
        if self.find_sandbox(id).await?.is_none() {
            if writer != Writer::Registrar {
                return Ok(Err(Rejection::UnknownSandbox));
            }
            let row = external_sandbox(id, self.now(), self.draft.legacy_silence_seconds);
            self.insert_sandbox(row).await?;
        }
        match self.draft.take_in(id, writer, event) {
            Taken::Done(outcome) => Ok(outcome),
            Taken::Recorded(appended, on_messages) => {
                match on_messages {
                    OnMessages::Nothing => {}
                    OnMessages::OfferAgain => self.offer_again(id).await?,
                    OnMessages::Consumed { id: message, content } => {
                        self.consume(id, message, content, appended.seq).await?;
                    }
                }
                self.draft.follow(id, event);
                Ok(Ok(appended))
            }
        }
    }
}

/// Arguments that go to SQLite as one JSON text.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings and numbers are always JSON")
}
