//! Owns the kit that measures Godwit: the benchmark against other programs, and the networks of
//! many nodes. Users do not install it; it uses only the command line of Godwit.

pub mod bench;
pub mod cluster;
pub mod pipe;
pub mod scan;
