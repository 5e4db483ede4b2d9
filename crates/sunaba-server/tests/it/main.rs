//! The server as its clients see it: over HTTP, on a real store.

mod agents;
mod auth;
mod blobs;
#[cfg(test)]
mod blobs_elsewhere;
mod doors;
mod events;
mod fencing;
mod live_sse;
mod live_ws;
mod log_pages;
mod messages;
mod openapi;
mod operations;
mod projects;
mod questions;
mod registry;
mod room;
mod secrecy;
mod secrets;
#[cfg(test)]
mod steps;
mod tenancy;
mod terms;
mod transcripts;
mod usage;
