//! The stream parser under any cutting, and the wire types.

mod sse;
mod wire;
