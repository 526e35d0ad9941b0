//! The catalogue of failures: the one list of all ways in which a job, a command or an entry can fail.
//! Holds no occurrence of a failure; `Failure` does.

use super::{Culprit, Exit, Retry, Row, Scope};

macro_rules! catalogue {
    ($(
        $name:ident $word:literal $scope:ident $number:literal, $culprit:ident, $retry:ident, $exit:ident:
        $meaning:literal, $advice:literal;
    )*) => {
        /// The code of a failure. The order is that of `docs/failures.md`.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum FailureCode {
            $(#[doc = $meaning] $name,)*
        }

        impl FailureCode {
            /// All codes, in the order of `docs/failures.md`.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        /// The rows, in the order of the codes.
        pub(super) const CATALOGUE: &[Row] = &[$(Row {
            word: $word,
            scope: Scope::$scope,
            number: $number,
            culprit: Culprit::$culprit,
            retry: Retry::$retry,
            exit: Exit::$exit,
            meaning: $meaning,
            advice: $advice,
        }),*];
    };
}

// Numbers of jobs below 64 are those of ERROR in docs/wire.md, those of entries its fault codes; all others stay on this side.
catalogue! {
    Usage "usage" Job 101, User, Permanent, Usage:
        "The command or a setting makes no sense.",
        "Correct the command; --help lists what there is.";
    NoSource "no_source" Job 10, Source, Permanent, Failed:
        "None of the sources can be read.",
        "Check the names of the sources, and that the user of the source side may read them.";
    DestinationUnusable "destination_unusable" Job 9, Destination, Permanent, Failed:
        "The destination cannot be written at all.",
        "Mend what the message names, or name another destination.";
    ExportAway "export_away" Job 26, NamedSide, Transient, Failed:
        "The file system of an export is not mounted, is another one than at the other nodes, or does not answer.",
        "Mount the file system that the message names; a job goes on by itself then.";
    IntoItself "into_itself" Job 16, User, Permanent, Failed:
        "A tree would be copied into itself, or the source would be deleted.",
        "Name a destination outside the source.";
    PathOutsideExport "path_outside_export" Job 15, User, Permanent, Failed:
        "The path leaves the export.",
        "Name a path within the export, without symbolic links on its way.";
    NoSuchExport "no_such_export" Job 4, User, Permanent, Failed:
        "The node has no export of this name.",
        "Check the name with the operator of the node.";
    NotSupported "not_supported" Job 24, User, Permanent, Failed:
        "A machine cannot do what the job asks for.",
        "Leave out the setting that the message names, or update that machine.";
    Unauthorized "unauthorized" Job 2, User, Permanent, Authentication:
        "The node does not know who asks.",
        "Ask the operator of the node to run the command in the message.";
    AccessDenied "access_denied" Job 3, User, Permanent, Authentication:
        "The node knows who asks and has not granted this.",
        "Ask the operator of the node to run the command in the message.";
    UnknownPeer "unknown_peer" Job 103, User, Permanent, Authentication:
        "The node is not known here.",
        "Compare its identity with its operator, then run: godwit trust.";
    IdentityChanged "identity_changed" Job 68, Peer, Permanent, Authentication:
        "The node has another identity than the trusted one.",
        "Ask its operator whether the key was replaced, then run: godwit trust.";
    SshDenied "ssh_denied" Job 72, User, Permanent, Authentication:
        "The login by ssh was refused, or the host key is not the known one.",
        "Make `ssh HOST true` work first.";
    SshFailed "ssh_failed" Job 71, Network, Transient, Failed:
        "The program ssh failed or did not answer.",
        "Make `ssh HOST true` work first.";
    RemoteCommandMissing "remote_command_missing" Job 73, Peer, Permanent, Failed:
        "The other machine has no godwit where it was looked for.",
        "Install godwit there, or say where it is with --remote-command.";
    RemoteCommandUnusable "remote_command_unusable" Job 74, Peer, Permanent, Failed:
        "The command on the other machine is no godwit that can answer.",
        "Install this version there, or name another one with --remote-command.";
    AgentFailed "agent_failed" Job 75, Peer, Permanent, Failed:
        "The agent on the other machine could not begin.",
        "Mend on the other machine what the message names.";
    VersionMismatch "version_mismatch" Job 1, Peer, Permanent, Failed:
        "The other side has another version and cannot do this.",
        "Install the same version on both sides.";
    NotGodwit "not_godwit" Job 69, User, Permanent, Failed:
        "What answers at the address is no godwit node.",
        "Check the host and the port; 7272 is usual.";
    TlsFailed "tls_failed" Job 70, Peer, Permanent, Failed:
        "The two sides found no agreement in TLS.",
        "Check --cipher and the versions of both sides.";
    Unreachable "unreachable" Job 66, Network, Transient, Failed:
        "No connection to the other side can be made.",
        "Check the name, the port and the firewall, and that the node runs.";
    ChannelUnusable "channel_unusable" Job 76, Network, Permanent, Failed:
        "A network path that --channel names cannot be used.",
        "Check the interface and the address, or leave --channel out.";
    PeerSilent "peer_silent" Job 67, Peer, Transient, Failed:
        "The other side took the connection and did not answer in time.",
        "Check the load of the other machine, or raise --handshake-deadline.";
    PeerBusy "peer_busy" Job 8, Peer, Transient, Failed:
        "The node has as many transfers or connections as it allows.",
        "Wait for one to end, or ask its operator to raise the limit.";
    BusyDestination "busy_destination" Job 5, Destination, Transient, Failed:
        "Another transfer writes to the destination.",
        "Wait for that transfer, or stop it.";
    UnknownTransfer "unknown_transfer" Job 6, Peer, Transient, Failed:
        "The node does not know the transfer any more.",
        "Give the same command again.";
    BadToken "bad_token" Job 7, Peer, Transient, Failed:
        "The node refused the token of a connection.",
        "Give the same command again.";
    Superseded "superseded" Job 14, User, Permanent, Failed:
        "The same transfer was opened again elsewhere.",
        "Look for the other command, and keep one of the two.";
    ConnectionLost "connection_lost" Job 64, Network, Transient, Interrupted:
        "No connection worked for as long as --retry-for says.",
        "Give the same command again; it resumes.";
    PeerEnded "peer_ended" Job 13, Peer, Transient, Interrupted:
        "The other side ended the transfer in good order.",
        "Give the same command again; it resumes.";
    Cancelled "cancelled" Job 65, User, Transient, Interrupted:
        "The user stopped the job.",
        "Give the same command again; it resumes.";
    CannotResume "cannot_resume" Job 77, Network, Transient, Failed:
        "The job was stopped, and what it had begun cannot be taken up again.",
        "Begin anew.";
    JournalUnusable "journal_unusable" Job 19, Destination, Permanent, Failed:
        "The journal of the transfer cannot be written, read or removed.",
        "Check the space and the rights of the directory of journals, then give the same command again.";
    SyncFailed "sync_failed" Job 18, Destination, Transient, Failed:
        "The storage of the destination does not make data durable.",
        "Check that storage and its space, then give the same command again.";
    SpillUnusable "spill_unusable" Job 20, Destination, Transient, Failed:
        "Notes that were kept on disk for the end of the transfer cannot be read back.",
        "Check the space of the directory that GODWIT_HOME names, then give the same command again.";
    LeftoversStay "leftovers_stay" Job 21, Destination, Permanent, Failed:
        "Temporary files of an earlier run cannot be removed.",
        "Remove what the message names, then give the same command again.";
    DataDamaged "data_damaged" Job 17, Network, Transient, Failed:
        "Too many blocks arrived damaged.",
        "Check the memory and the network hardware of both machines.";
    InputUnusable "input_unusable" Job 104, ThisMachine, Permanent, Failed:
        "An input of the command cannot be read.",
        "Give the command a standard input, a list or a manifest that it can read.";
    OutputUnusable "output_unusable" Job 22, ThisMachine, Permanent, Failed:
        "Standard output takes no more, or has got what is void now.",
        "Begin anew with a reader that stays to the end.";
    ReportUnusable "report_unusable" Job 105, ThisMachine, Permanent, Failed:
        "A report of the job cannot be written.",
        "Check the place that the message names.";
    HomeUnusable "home_unusable" Job 106, ThisMachine, Permanent, Failed:
        "The directory of keys, grants and journals cannot be used.",
        "Check the directory that GODWIT_HOME names.";
    ManifestRefused "manifest_refused" Job 107, Source, Permanent, Failed:
        "The manifest is not whole, or its signature is not that of the named identity.",
        "Get the manifest again from the place where it was written.";
    VerificationIncomplete "verification_incomplete" Job 108, Peer, Transient, Failed:
        "The verification did not answer for all entries.",
        "Check the copy again.";
    NoSuchTransfer "no_such_transfer" Job 109, User, Permanent, Failed:
        "No transfer or job has this name.",
        "List those that there are, and name one of them.";
    OutOfResources "out_of_resources" Job 23, ThisMachine, Transient, Failed:
        "The machine has no thread, descriptor or memory left for this.",
        "Raise the limits of the process, or wait until others have ended.";
    LocalFailure "local_failure" Job 110, ThisMachine, Permanent, Failed:
        "An operation on this machine failed.",
        "Mend what the message names.";
    ProtocolViolation "protocol_violation" Job 11, Peer, Permanent, Failed:
        "The other side broke the rules of the protocol.",
        "Install the same version on both sides, and report it if that does not help.";
    Internal "internal" Job 12, Bug, Permanent, Failed:
        "The program has a fault.",
        "Report it with the message and the log.";
    PeerFailed "peer_failed" Job 111, Peer, Permanent, Failed:
        "The other side failed for a reason that has no code of its own here.",
        "Mend at the other side what the message names.";
    Partial "partial" Job 112, NamedSide, Permanent, Partial:
        "Some entries failed and were named; all others are complete.",
        "Mend what each of them names, then give the same command again.";
    Different "different" Job 113, Destination, Permanent, Partial:
        "The copy is not what the manifest says.",
        "Copy again what was named, or find out who changed it.";

    Io "io" Entry 1, NamedSide, Transient, Partial:
        "Reading or writing failed.",
        "Check the storage of that side.";
    NoSpace "no_space" Entry 2, Destination, Permanent, Partial:
        "The storage or a quota is full.",
        "Make room, then give the same command again.";
    Permission "permission" Entry 3, NamedSide, Permanent, Partial:
        "The user of that side may not do this.",
        "Change the rights, or run that side as another user.";
    ReadOnly "read_only" Entry 4, Destination, Permanent, Partial:
        "The file system is read-only.",
        "Mount it for writing, or name another destination.";
    NotFound "not_found" Entry 5, NamedSide, Permanent, Partial:
        "The entry is not there, or not there any more.",
        "Check the name.";
    Changed "changed" Entry 6, Source, Transient, Partial:
        "The file kept changing while it was read.",
        "Copy it when it is quiet, or from a snapshot.";
    NotRegular "not_regular" Entry 7, NamedSide, Permanent, Partial:
        "The entry is a device, a socket or a pipe.",
        "Leave it out, or ask for it with --specials or --devices.";
    Collision "collision" Entry 8, Destination, Permanent, Partial:
        "Something else has the name, perhaps in another spelling.",
        "Rename one of the two.";
    Name "name" Entry 9, NamedSide, Permanent, Partial:
        "The name is not possible there, or is one of Godwit's temporary names.",
        "Rename the entry.";
    Type "type" Entry 10, NamedSide, Permanent, Partial:
        "A file stands where a directory is needed, or the reverse.",
        "Move one of the two away.";
    Escape "escape" Entry 11, NamedSide, Permanent, Partial:
        "A symbolic link is on the way, and is not followed.",
        "Name the place that the link means.";
    Digest "digest" Entry 12, NamedSide, Transient, Partial:
        "What is there is not what was read at the source.",
        "Give the same command again; if it stays, check memory and storage.";
    Limit "limit" Entry 13, NamedSide, Permanent, Partial:
        "A limit of the program or of a setting was reached.",
        "Read the message; raise --max-delete if it names that.";
    Unsupported "unsupported" Entry 14, NamedSide, Permanent, Partial:
        "The storage of that side cannot do it.",
        "Leave out the entry or the setting, or name another storage.";
    Size "size" Entry 32, Destination, Permanent, Partial:
        "A verification found another size.",
        "Copy the file again, or find out who changed it.";
    Metadata "metadata" Entry 33, Destination, Permanent, Partial:
        "A verification found another mode, time or link target.",
        "Copy the entry again, or find out who changed it.";
    Other "other" Entry 0, NamedSide, Permanent, Partial:
        "The entry failed for a reason that has no code of its own here.",
        "Mend on that side what the message names.";
}
