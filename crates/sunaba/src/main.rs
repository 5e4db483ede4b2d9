//! The sunaba program.
fn main() {}
