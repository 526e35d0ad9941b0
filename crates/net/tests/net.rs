//! Drives real connections on the loopback interface.

mod net {
    pub(crate) mod common;
    mod frames;
    mod handshakes;
    mod keys;
    mod trouble;
}
