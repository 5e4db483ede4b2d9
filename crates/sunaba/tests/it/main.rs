//! The program as its users meet it: the built binary, real processes, real sockets.

mod config;
mod end_to_end;
mod sandboxes;
mod serve;
mod support;
mod tokens;
