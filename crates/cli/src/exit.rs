//! How the program ends: the exit codes of the catalogue of failures.
//! Prints nothing.

pub(crate) use godwit_api::failure::{Exit, Failure, FailureCode};
