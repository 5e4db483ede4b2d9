//! Settles the calls that a server left open when it died.

use sunaba_nodes::Nodes;
use sunaba_store::{OpenCall, Settlement};
use sunaba_types::Timestamp;

use super::settle::{Settled, persist};
use crate::GatewayState;
use crate::record::{self, ModelCall};

const GONE_SERVER: &str = "the server was gone before the answer was seen";

impl GatewayState {
    /// Settles every call that this node reserved before it started, at its whole reservation: nobody
    /// saw its answer, and it may have cost that much. Gives their number.
    pub async fn recover(&self, started_at: Timestamp) -> Result<usize, sunaba_store::Error> {
        let me = self.config.nodes.as_ref().map(Nodes::me);
        let open = self.config.store.open_calls(me).await?;
        let mut settled = 0;
        for call in open.into_iter().filter(|call| call.created_at < started_at) {
            settled += usize::from(self.give_up(call).await);
        }
        Ok(settled)
    }

    async fn give_up(&self, call: OpenCall) -> bool {
        let known_by = "reservation";
        let settlement =
            Settlement { cost_micros: call.micros, known_by: known_by.to_owned(), ..Settlement::default() };
        if !persist(self, &call.id, settlement).await {
            return false;
        }
        let record = ModelCall {
            dialect: call.dialect,
            model: call.model,
            error: Some(GONE_SERVER.to_owned()),
            settled: Settled {
                call_id: Some(call.id),
                cost_micros: call.micros,
                reserved_micros: call.micros,
                known_by: Some(known_by),
                ..Settled::default()
            },
            ..ModelCall::default()
        };
        record::model_call(self, &call.sandbox_id, record).await;
        true
    }
}
