//! Tests the API of a node as clients see it: the real server with a real state, over its sockets.
//! The binary is tested in `cli`.

#![allow(
    clippy::unwrap_used,
    reason = "a test that finds something else than it expects has failed"
)]

mod access;
mod account;
mod bad_input;
mod buffered;
mod client;
mod connections;
mod credentials;
mod crowded;
mod destinations;
mod events;
mod flows;
mod graphite;
mod health;
mod jobs;
mod left;
mod logins;
mod names;
mod narrowed;
mod paced;
mod page;
mod port;
mod rights;
mod seen;
mod session;
mod sites;
mod subjects;
mod webhooks;
mod world;
