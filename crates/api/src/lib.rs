//! Owns what a user can say to Godwit, and what Godwit says back: settings, endpoints, jobs, events, failures, REST documents.
//! No server, no sockets and no command line: those are derived from what is defined here.

pub mod ask;
pub mod duration;
pub mod endpoint;
pub mod event;
pub mod failure;
pub mod grant;
pub mod host;
pub mod job;
pub mod login;
pub mod record;
pub mod rest;
pub mod settings;
pub mod shown;
pub mod sight;
pub mod units;
pub mod watched;

pub use godwit_model::{Moment, civil_date, parse_moment};

/// The one port of a node, where none is named.
pub const PORT_DEFAULT: u16 = 7272;
