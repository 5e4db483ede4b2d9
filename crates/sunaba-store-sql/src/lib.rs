//! What both SQL stores share.
//!
//! Rows and how they become the product's words, what an event or a change does to what a transaction has
//! loaded ([`draft`]), what leads to the writer ([`writer`]), what it has just published ([`tail`]), and what can
//! go wrong. There is no SQL here: a store asks its own database and fills these rows. The only thing of sqlx is
//! its error, because every fault of a command carries one.

pub mod draft;
pub mod facts;
pub mod fault;
pub mod page;
pub mod rows;
pub mod tail;
pub mod writer;
