//! The `godwit` command.
fn main() {}
