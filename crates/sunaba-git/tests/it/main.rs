//! Real git on real repositories in a temporary directory.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod elsewhere;
mod mirror;
mod publish;
mod repo;
mod scratch;
mod serve;
mod support;
mod tree;
mod unfinished;
mod workspace;
