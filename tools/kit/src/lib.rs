//! Owns the kit that measures Godwit: the benchmark against others, and the worlds of many nodes.
//! No part of what users install; uses nothing of Godwit but its command line.

pub mod bench;
pub mod cluster;
pub mod pipe;
pub mod scan;
