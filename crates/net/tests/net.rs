//! Drives real connections on the loopback interface.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod net {
    pub(crate) mod common;
    mod frames;
    mod handshakes;
    mod keys;
    mod strangers;
    mod trouble;
}
