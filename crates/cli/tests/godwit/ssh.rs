//! Tests of transfers by ssh, with a real sshd of their own.
//! The sshd is in `far`; each module beside it owns one kind of use or trouble.

mod carried;
mod denied;
mod doctor;
mod errands;
pub(crate) mod far;
mod faults;
mod itself;
mod listed;
mod lost;
mod network;
mod once;
mod people;
mod third;
mod uses;
