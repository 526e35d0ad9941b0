//! Several transfers of one job, through two nodes, into one file of one directory: parts, their assembly, the closer, claims.
//! The order in which writers fail is for the simulation in `engine`.

#[path = "parts/claims.rs"]
mod claims;
#[path = "parts/heard.rs"]
mod heard;
#[path = "parts/refused.rs"]
mod refused;
#[path = "parts/world.rs"]
mod world;
#[path = "parts/written.rs"]
mod written;
