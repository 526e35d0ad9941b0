//! Owns the kit that measures Godwit: the benchmark against others, and the worlds of many nodes.
//! Users do not install it; it uses nothing of Godwit but the command line.

pub mod bench;
pub mod cluster;
pub mod pipe;
pub mod scan;
