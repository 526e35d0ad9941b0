//! The exit codes of the program, from the catalogue of failures.
//! Prints nothing.

pub(crate) use godwit_api::failure::{Exit, Failure, FailureCode};
