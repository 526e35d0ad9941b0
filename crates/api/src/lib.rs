//! Owns the vocabulary between users and Godwit: settings, endpoints, jobs, events, failures, REST documents.
//! Contains no server, no sockets and no command line: those derive from the definitions here.

pub mod ask;
pub mod duration;
pub mod endpoint;
pub mod energy;
pub mod event;
pub mod failure;
pub mod grant;
pub mod host;
pub mod job;
pub mod json;
pub mod login;
pub mod observation;
pub mod record;
pub mod rest;
pub mod settings;
pub mod shown;
pub mod units;
pub mod watched;

pub use godwit_model::{Moment, civil_date, fnv, parse_moment};

/// The default port of a node.
pub const PORT_DEFAULT: u16 = 7272;
