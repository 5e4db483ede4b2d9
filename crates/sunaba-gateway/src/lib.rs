//! The only door out of a sandbox: model and git proxying, the scripted model.
//!
//! A request arrives with a [`Caller`], which the server derived from the
//! sandbox's token; nothing in the request itself says who is asking. Keys are
//! added here and never enter a sandbox. Each decision is written into the
//! sandbox's log by the server: `gateway.model_call`, `gateway.budget`,
//! `gateway.quota`, `gateway.git`.

mod admission;
mod bodies;
mod budget;
mod dialect;
mod egress;
mod git;
mod json;
mod model;
mod patient;
mod prices;
mod record;
mod router;
mod script;
mod standing;
mod state;
mod under_way;
mod upstream;
mod usage;

pub use egress::{Egress, EgressSettings, Resolve, SystemResolver};
pub use git::PushRoom;
pub use patient::{Keeps, Minds, Patient};
pub use prices::{PriceError, PriceTable};
pub use router::{router, router_for_nodes};
pub use script::{DEFAULT_SCRIPT, SCRIPT_MAX_BYTES, Script, ScriptError};
pub use state::{Caller, GatewayConfig, GatewayState, ScriptSource, Upstream};
