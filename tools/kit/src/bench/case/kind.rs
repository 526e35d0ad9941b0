//! Owns the contenders of a case, and their names. `contender` implements their work.

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
    /// Godwit checking files by a manifest, without a transfer.
    GodwitVerify,
    /// Godwit by ssh, to the far end; the next kind copies from it.
    GodwitToSsh,
    GodwitFromSsh,
    /// An ssh command that runs `true` at the far end.
    SshTrue,
    Pipe,
    /// The bare pipe with a digest of all bytes, computed at both ends.
    PipeDigest,
    /// The same pipe with cubic, regardless of the system's congestion control.
    PipeCubic,
    /// The same pipe with separate files for each stream, each synced before it is closed: the disk work of both
    /// ends.
    PipeSynced,
    /// The bare pipe with the calls that set times and final names.
    Loop,
    /// The same loop with digests, as in `PipeDigest`.
    LoopDigest,
    /// Two bare scans of trees.
    Scan,
    /// The usual program that computes hashes of files, with as many threads as there are cores.
    B3sum,
    /// A peer with a definition.
    Peer(&'static Definition),
}

impl Kind {
    /// The name on the command line and in JSON.
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

    /// The name in tables.
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

    /// Programs that the contender needs and that belong to no peer.
    pub(crate) fn tools(self) -> &'static [Tool] {
        match self {
            Self::B3sum => &[("b3sum", "b3sum")],
            Self::GodwitToSsh | Self::GodwitFromSsh | Self::SshTrue => SSH,
            Self::Peer(definition) if definition.ssh => SSH,
            _ => &[],
        }
    }

    /// Whether the contender shows a limit of the machine; otherwise it is an alternative to Godwit.
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

    /// Whether the contender is another program that computes no digests of the moved data, or moves no data.
    pub(crate) fn is_unchecked(self) -> bool {
        matches!(self, Self::Peer(definition) if !definition.digests)
    }

    /// Whether the contender moves the load beside the case's main load.
    pub(crate) fn moves_beside(self) -> bool {
        matches!(self, Self::GodwitBeside)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        // Names are unique: the reader of the definitions checks it.
        self.name() == other.name()
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
