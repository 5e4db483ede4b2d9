//! Real agents at work in real local sandboxes, behind the real server and its gateway. Only the model's words come
//! from a script. Needs `sunaba-worker` beside `sunaba`, bubblewrap, git and the agents that `scripts/setup test`
//! installs; fails loudly without them.

mod agent;
#[path = "../faults/api.rs"]
#[expect(dead_code, reason = "the fault tests use the rest of it")]
mod api;
mod away;
mod conformance;
mod flaky;
mod interrupts;
mod kills;
#[path = "../shared/leavings.rs"]
mod leavings;
mod permissions;
mod processes;
mod python;
mod run;
#[path = "../faults/server.rs"]
#[expect(dead_code, reason = "the fault tests use the rest of it")]
mod server;
#[path = "../faults/sandboxes/victims.rs"]
#[expect(dead_code, reason = "the fault tests use the rest of it")]
mod victims;
mod working;
mod world;
