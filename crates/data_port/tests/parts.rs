//! Tests several transfers of one job, through two nodes, into one file of one directory: parts, their assembly, the closer,
//! claims. The simulation in `engine` tests the order in which writers fail.

#[path = "parts/claims.rs"]
mod claims;
#[path = "parts/refused.rs"]
mod refused;
#[path = "parts/world.rs"]
mod world;
#[path = "parts/written.rs"]
mod written;
