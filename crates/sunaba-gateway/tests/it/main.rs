//! The gateway on a real port, with a real store, real git and a real HTTP client.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod budget;
mod budget_cut;
mod budget_recovery;
mod budget_rules;
mod egress;
mod fairness;
mod git_fetch;
mod git_push;
mod git_room;
mod google_script;
mod google_upstream;
mod hostile_bodies;
mod openai_script;
mod openai_upstream;
mod script;
mod support;
mod upstream;
mod vendor;
