//! Nodes on a real store.

#[cfg(test)]
mod book;
