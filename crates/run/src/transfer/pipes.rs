//! Owns which ends of a transfer are standard streams, and what such a transfer cannot do. Does not read or write the streams.

use godwit_api::endpoint::Endpoint;

/// Why a transfer from standard input does not restart.
pub(super) const INPUT_IS_GONE: &str = "the other side stopped or forgot the transfer, and standard input cannot be read again; give the whole input once more";

/// Why a transfer to standard output does not restart.
pub(super) const OUTPUT_IS_GONE: &str = "the other side stopped or forgot the transfer, and data already written to standard output cannot be taken back; start again";

/// The ends that are standard streams. Neither stream can be used a second time.
#[derive(Clone, Copy)]
pub(super) struct Pipes {
    /// The source is standard input.
    pub(super) from_input: bool,
    /// The destination is standard output.
    pub(super) to_output: bool,
}

impl Pipes {
    pub(super) fn of(sources: &[Endpoint], destination: &Endpoint) -> Self {
        Self {
            from_input: sources.contains(&Endpoint::Stdio),
            to_output: *destination == Endpoint::Stdio,
        }
    }

    /// Whether an end is a standard stream.
    pub(super) const fn any(self) -> bool {
        self.from_input || self.to_output
    }

    /// Name of a destination without files.
    pub(super) fn nowhere(self) -> Vec<u8> {
        if self.to_output { &b"-"[..] } else { b"null:" }.to_vec()
    }

    /// The message of a transfer that cannot restart, if this is one.
    pub(super) fn once(self) -> Option<&'static str> {
        if self.from_input {
            Some(INPUT_IS_GONE)
        } else {
            self.to_output.then_some(OUTPUT_IS_GONE)
        }
    }
}
