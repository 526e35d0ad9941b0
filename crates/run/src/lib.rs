//! Runs a job from its description to its end: both ends of a transfer, the reports, and what is told of it.
//! Prints nothing, asks nobody, and changes nothing of the process that it runs in.

pub mod build;
pub mod itself;
pub mod local;
