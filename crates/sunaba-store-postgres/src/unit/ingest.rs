//! Taking one event in.

use sunaba_store::{AppendOutcome, Rejection, Writer};
use sunaba_store_sql::draft::{OnMessages, Taken, external_sandbox};
use sunaba_types::{NewEvent, SandboxId};

use super::Unit;
use crate::fault::Fault;

impl Unit {
    /// Takes one event in. An `Err` is PostgreSQL's; whatever the rules refuse is in the outcome.
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
        if self.draft.find_sandbox(id).is_none() {
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
