//! The embedded store against the suite of every backend, and what is SQLite's own.

mod conformance;
mod contention;
mod faults;
mod offline_data;
mod property;
mod restart;
mod speed;
mod support;
