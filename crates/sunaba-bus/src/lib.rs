#![doc = include_str!("../README.md")]

mod backoff;
mod config;
mod connection;
mod error;
mod handle;
mod hints;
mod names;
mod publisher;
mod service;
mod start;

pub use config::{Config, RedisUrl};
pub use connection::check;
pub use error::Error;
pub use handle::{Handle, Status};
pub use service::Service;
