//! Owns the contenders of a case, and their names.
//! How each does its work is in `contender`.

use serde::{Serialize, Serializer};

use super::super::peers::{Definition, Role, Tool};

const SSH: &[Tool] = &[("ssh", "openssh-client"), ("sshd", "openssh-server")];

/// The program that moves the data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Godwit,
    /// Godwit with the load beside the case's main load.
    GodwitBeside,
    /// Godwit through the same emulator, without its delay.
    GodwitNear,
    /// Godwit checking files by a manifest, which moves nothing.
    GodwitVerify,
    /// Godwit by ssh, to the far end and from it.
    GodwitToSsh,
    GodwitFromSsh,
    /// An ssh that runs `true` at the far end.
    SshTrue,
    Pipe,
    /// The bare pipe with the digest of all bytes taken at both ends.
    PipeDigest,
    /// The same with cubic, whatever the system's congestion control is.
    PipeCubic,
    /// The same with separate files for each stream, each synced before it is closed: the disk work of both ends.
    PipeSynced,
    /// The bare pipe with the calls that keep times and give names last.
    Loop,
    /// The same with digests, as with the pipe.
    LoopDigest,
    /// Two trees looked at, and nothing more.
    Scan,
    /// The usual program that hashes files, with as many threads as there are cores.
    B3sum,
    /// A peer with a definition.
    Peer(&'static Definition),
}

impl Kind {
    /// Its name on the command line and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Godwit => "godwit",
            Self::GodwitBeside => "godwit-beside",
            Self::GodwitNear => "godwit-near",
            Self::GodwitVerify => "godwit-verify",
            Self::GodwitToSsh => "godwit-to-ssh",
            Self::GodwitFromSsh => "godwit-from-ssh",
            Self::SshTrue => "ssh-true",
            Self::Pipe => "pipe",
            Self::PipeDigest => "pipe-digest",
            Self::PipeCubic => "pipe-cubic",
            Self::PipeSynced => "pipe-synced",
            Self::Loop => "loop",
            Self::LoopDigest => "loop-digest",
            Self::Scan => "scan",
            Self::B3sum => "b3sum",
            Self::Peer(definition) => &definition.name,
        }
    }

    /// Its name in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Godwit | Self::GodwitBeside => "godwit",
            Self::GodwitNear => "godwit, no delay",
            Self::GodwitVerify => "godwit verify",
            Self::GodwitToSsh => "godwit to ssh",
            Self::GodwitFromSsh => "godwit from ssh",
            Self::SshTrue => "ssh true",
            Self::Pipe => "bare pipe",
            Self::PipeDigest => "bare pipe with digests",
            Self::PipeCubic => "bare pipe with digests, cubic",
            Self::PipeSynced => "bare pipe with digests, cubic, synced",
            Self::Loop => "bare file loop",
            Self::LoopDigest => "bare file loop with digests",
            Self::Scan => "two bare scans",
            Self::B3sum => "b3sum",
            Self::Peer(definition) => &definition.title,
        }
    }

    /// Programs that it needs and that are no peer's.
    pub(crate) fn tools(self) -> &'static [Tool] {
        match self {
            Self::B3sum => &[("b3sum", "b3sum")],
            Self::GodwitToSsh | Self::GodwitFromSsh | Self::SshTrue => SSH,
            Self::Peer(definition) if definition.ssh => SSH,
            _ => &[],
        }
    }

    /// Whether it shows a limit of the machine, rather than being a program to use instead.
    pub(crate) fn is_limit(self) -> bool {
        match self {
            Self::Pipe
            | Self::PipeDigest
            | Self::PipeCubic
            | Self::PipeSynced
            | Self::Loop
            | Self::LoopDigest
            | Self::Scan => true,
            Self::Peer(definition) => definition.role == Role::Limit,
            _ => false,
        }
    }

    /// Whether it is another's program that takes no digests of the data it moves, or moves nothing.
    pub(crate) fn is_unchecked(self) -> bool {
        matches!(self, Self::Peer(definition) if !definition.digests)
    }

    /// Whether it moves the load beside the case's main load.
    pub(crate) fn moves_beside(self) -> bool {
        matches!(self, Self::GodwitBeside)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        // Names are unique; definitions are checked for that when they are read.
        self.name() == other.name()
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
