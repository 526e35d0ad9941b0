//! The catalogue of failures: the one list of all ways in which a job, a command, an entry or a request can fail, and of all reasons
//! why a job is in its state. Holds no occurrence of a failure; `Failure` does.

use super::{Culprit, Exit, Retry, Row, Scope};

macro_rules! number {
    () => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

macro_rules! catalogue {
    ($(
        $name:ident $word:literal $scope:ident $($number:literal)?, $culprit:ident, $retry:ident, $exit:ident:
        $meaning:literal, $advice:literal;
    )*) => {
        /// The code of a failure, a refusal or a reason. The order is that of `docs/failures.md`.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum FailureCode {
            $(#[doc = $meaning] $name,)*
        }

        impl FailureCode {
            /// All codes, in the order of `docs/failures.md`.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code of a word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }
        }

        /// The rows, in the order of the codes.
        pub(super) const CATALOGUE: &[Row] = &[$(Row {
            word: $word,
            scope: Scope::$scope,
            number: number!($($number)?),
            culprit: Culprit::$culprit,
            retry: Retry::$retry,
            exit: Exit::$exit,
            meaning: $meaning,
            advice: $advice,
        }),*];
    };
}

// Numbers of jobs below 64 are the codes of ERROR in docs/wire.md, and numbers of entries are its fault codes; all others stay on this side.
// Codes of requests and of reasons travel as words.
catalogue! {
    Usage "usage" Job 101, User, Permanent, Usage:
        "The command or a setting makes no sense.",
        "Correct the command; --help lists what there is.";
    NoSource "no_source" Job 10, Source, Permanent, Failed:
        "None of the sources can be read.",
        "Check the names of the sources, and that the user of the source side may read them.";
    DestinationUnusable "destination_unusable" Job 9, Destination, Permanent, Failed:
        "The destination cannot be written at all.",
        "Correct the fault that the message names, or name another destination.";
    ExportAway "export_away" Job 26, NamedSide, Transient, Failed:
        "The file system of an export is not mounted, is another one than at the other nodes, or does not answer.",
        "Mount the file system that the message names; then the job resumes.";
    IntoItself "into_itself" Job 16, User, Permanent, Failed:
        "A tree would be copied into itself, or the source would be deleted.",
        "Name a destination outside the source.";
    EmptySource "empty_source" Job 27, User, Permanent, Usage:
        "The source is empty, and the deletion would empty the destination.",
        "Check the source; if the destination is to be emptied, give --max-delete (to a job: --setting max-delete=N).";
    PathOutsideExport "path_outside_export" Job 15, User, Permanent, Failed:
        "The path leaves the export.",
        "Name a path within the export that contains no symbolic links.";
    NoSuchExport "no_such_export" Job 4, User, Permanent, Failed:
        "The node has no export of this name.",
        "Check the name with the operator of the node.";
    NotSupported "not_supported" Job 24, User, Permanent, Failed:
        "A machine cannot do what the job asks for.",
        "Leave out the setting that the message names, or update that machine.";
    Unauthorized "unauthorized" Job 2, User, Permanent, Authentication:
        "The node does not know the identity of the client.",
        "Ask the operator of the node to run the command in the message.";
    AccessDenied "access_denied" Job 3, User, Permanent, Authentication:
        "The node knows the client but has not granted this.",
        "Ask the operator of the node to run the command in the message.";
    UnknownPeer "unknown_peer" Job 103, User, Permanent, Authentication:
        "The node is not known here.",
        "Compare the node's identity with its operator, then run: godwit trust.";
    IdentityChanged "identity_changed" Job 68, Peer, Permanent, Authentication:
        "The node has another identity than the trusted one.",
        "Ask the node's operator whether the key was replaced, then run: godwit trust.";
    SshDenied "ssh_denied" Job 72, User, Permanent, Authentication:
        "The login by ssh was refused, or the host key differs from the known one.",
        "Make `ssh HOST true` work first.";
    SshFailed "ssh_failed" Job 71, Network, Transient, Failed:
        "The program ssh failed or did not answer.",
        "Make `ssh HOST true` work first.";
    RemoteCommandMissing "remote_command_missing" Job 73, Peer, Permanent, Failed:
        "No godwit was found on the other machine.",
        "Install godwit there, as by --install-remote, or give its path with --remote-command.";
    RemoteCommandUnusable "remote_command_unusable" Job 74, Peer, Permanent, Failed:
        "The command on the other machine is not godwit, or its godwit cannot answer.",
        "Install this version there, or name another program with --remote-command.";
    AgentFailed "agent_failed" Job 75, Peer, Permanent, Failed:
        "The agent on the other machine could not start.",
        "Correct the fault that the message names on the other machine.";
    VersionMismatch "version_mismatch" Job 1, Peer, Permanent, Failed:
        "The other side has a different version, which cannot do this.",
        "Install the same version on both sides.";
    NotGodwit "not_godwit" Job 69, User, Permanent, Failed:
        "The program that answers at the address is not a godwit node.",
        "Check the host and the port; the default port is 7272.";
    TlsFailed "tls_failed" Job 70, Peer, Permanent, Failed:
        "The two sides have no TLS version or cipher in common.",
        "Check --cipher and the versions of both sides.";
    Unreachable "unreachable" Job 66, Network, Transient, Failed:
        "No connection to the other side can be made.",
        "Check the name, the port and the firewall, and that the node runs.";
    ChannelUnusable "channel_unusable" Job 76, Network, Permanent, Failed:
        "A network path that --channel names cannot be used.",
        "Check the interface and the address, or leave --channel out.";
    PeerSilent "peer_silent" Job 67, Peer, Transient, Failed:
        "The other side accepted the connection and did not answer in time.",
        "Check the load of the other machine, or raise --handshake-deadline.";
    PeerBusy "peer_busy" Job 8, Peer, Transient, Failed:
        "The node has as many transfers or connections as it allows.",
        "Wait for one to end, or ask the node's operator to raise the limit.";
    BusyDestination "busy_destination" Job 5, Destination, Transient, Failed:
        "Another transfer writes to the destination.",
        "Wait for that transfer, or stop it.";
    UnknownTransfer "unknown_transfer" Job 6, Peer, Transient, Failed:
        "The node no longer knows the transfer.",
        "Give the same command again.";
    BadToken "bad_token" Job 7, Peer, Transient, Failed:
        "The node refused the token of a connection or of a request.",
        "Give the same command again; for the API, use a token that the node knows.";
    Superseded "superseded" Job 14, User, Permanent, Failed:
        "The same transfer was opened again by another command.",
        "Find the other command, and keep only one of the two.";
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
        "The job was stopped and cannot be resumed.",
        "Start again.";
    JournalUnusable "journal_unusable" Job 19, Destination, Permanent, Failed:
        "The journal of the transfer cannot be written, read or removed.",
        "Check the space and the rights of the directory of journals, then give the same command again.";
    SyncFailed "sync_failed" Job 18, Destination, Transient, Failed:
        "The storage of the destination does not make data durable.",
        "Check that storage and its space, then give the same command again.";
    SpillUnusable "spill_unusable" Job 20, Destination, Transient, Failed:
        "Records kept on disk for the end of the transfer cannot be read back.",
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
        "Standard output accepts no more data, or has received data that is no longer valid.",
        "Run the command again with a reader that reads to the end.";
    ReportUnusable "report_unusable" Job 105, ThisMachine, Permanent, Failed:
        "A report of the job cannot be written.",
        "Check the place that the message names.";
    HomeUnusable "home_unusable" Job 106, ThisMachine, Permanent, Failed:
        "The directory of keys, grants and journals cannot be used.",
        "Check the directory that GODWIT_HOME names.";
    ManifestRefused "manifest_refused" Job 107, Source, Permanent, Failed:
        "The manifest is incomplete, or its signature is not by the named identity.",
        "Copy the manifest again from the place where it was written.";
    VerificationIncomplete "verification_incomplete" Job 108, Peer, Transient, Failed:
        "The verification did not check all entries.",
        "Check the copy again.";
    NoSuchTransfer "no_such_transfer" Job 109, User, Permanent, Failed:
        "No transfer or job has this name.",
        "List the transfers or jobs, and name one of them.";
    OutOfResources "out_of_resources" Job 23, ThisMachine, Transient, Failed:
        "The machine has no thread, descriptor or memory left for this.",
        "Raise the limits of the process, or wait until other work has ended.";
    LocalFailure "local_failure" Job 110, ThisMachine, Permanent, Failed:
        "An operation on this machine failed.",
        "Correct the fault that the message names.";
    ProtocolViolation "protocol_violation" Job 11, Peer, Permanent, Failed:
        "The other side broke the rules of the protocol.",
        "Install the same version on both sides, and report it if that does not help.";
    Internal "internal" Job 12, Bug, Permanent, Failed:
        "The program has a fault.",
        "Report it with the message and the log.";
    PeerFailed "peer_failed" Job 111, Peer, Permanent, Failed:
        "The other side failed for a reason without a separate code.",
        "Correct the fault that the message names on the other side.";
    Partial "partial" Job 112, NamedSide, Permanent, Partial:
        "Some entries failed, as reported; all others are complete.",
        "Correct the fault of each failed entry, then give the same command again.";
    Different "different" Job 113, Destination, Permanent, Partial:
        "The copy differs from the manifest.",
        "Copy the named entries again, or find out who changed them.";

    Io "io" Entry 1, NamedSide, Transient, Partial:
        "Reading or writing failed.",
        "Check the storage of that side.";
    NoSpace "no_space" Entry 2, Destination, Permanent, Partial:
        "The storage or a quota is full.",
        "Free some space, then give the same command again.";
    Permission "permission" Entry 3, NamedSide, Permanent, Partial:
        "The user of that side may not do this.",
        "Change the rights, or run that side as another user.";
    ReadOnly "read_only" Entry 4, Destination, Permanent, Partial:
        "The file system is read-only.",
        "Mount the file system for writing, or name another destination.";
    NotFound "not_found" Entry 5, NamedSide, Permanent, Partial:
        "The entry does not exist, or no longer exists.",
        "Check the name.";
    Changed "changed" Entry 6, Source, Transient, Partial:
        "The file kept changing while it was read.",
        "Copy the file when no program writes to it, or from a snapshot.";
    NotRegular "not_regular" Entry 7, NamedSide, Permanent, Partial:
        "The entry is a device, a socket or a pipe.",
        "Leave the entry out, or include it with --specials or --devices.";
    Collision "collision" Entry 8, Destination, Permanent, Partial:
        "Another entry has the name, perhaps in a different spelling.",
        "Rename one of the two.";
    Name "name" Entry 9, NamedSide, Permanent, Partial:
        "The destination does not allow the name, or Godwit uses it for temporary files.",
        "Rename the entry.";
    Type "type" Entry 10, NamedSide, Permanent, Partial:
        "A file stands where a directory is needed, or the reverse.",
        "Move one of the two to another place.";
    Escape "escape" Entry 11, NamedSide, Permanent, Partial:
        "A symbolic link is part of the path, and is not followed.",
        "Name the place to which the link points.";
    Digest "digest" Entry 12, NamedSide, Transient, Partial:
        "The data at the destination differs from the data read at the source.",
        "Give the same command again; if the failure repeats, check memory and storage.";
    Limit "limit" Entry 13, NamedSide, Permanent, Partial:
        "A limit of the program or of a setting was reached.",
        "Read the message; raise --max-delete if the message names this setting.";
    Unsupported "unsupported" Entry 14, NamedSide, Permanent, Partial:
        "The storage or the node of that side cannot do it.",
        "Leave out the entry or the setting, name another storage, or install the same version on both sides.";
    Size "size" Entry 32, Destination, Permanent, Partial:
        "A verification found another size.",
        "Copy the file again, or find out who changed it.";
    Metadata "metadata" Entry 33, Destination, Permanent, Partial:
        "A verification found another mode, time or link target.",
        "Copy the entry again, or find out who changed it.";
    Other "other" Entry 0, NamedSide, Permanent, Partial:
        "The entry failed for a reason without a separate code.",
        "Correct the fault that the message names on that side.";

    Invalid "invalid" Request, User, Permanent, Usage:
        "A field of the request makes no sense.", "Correct the field that the message names.";
    BadQuery "bad_query" Request, User, Permanent, Usage:
        "The query of the request makes no sense.", "Correct the part that the message names.";
    BadPath "bad_path" Request, User, Permanent, Usage:
        "The path of the request makes no sense.", "Correct the part that the message names.";
    BadHeader "bad_header" Request, User, Permanent, Usage:
        "A header of the request makes no sense.", "Correct the part that the message names.";
    NotJson "not_json" Request, User, Permanent, Usage:
        "The body of the request does not fit this route.", "Compare the body with the description of the API.";
    BadJson "bad_json" Request, User, Permanent, Usage:
        "The body of the request is not JSON.", "Correct the part that the message names.";
    TooLarge "too_large" Request, User, Permanent, Usage:
        "The request is larger than the node accepts.", "Ask for less in one request.";
    UriTooLong "uri_too_long" Request, User, Permanent, Usage:
        "The address of the request is too long.", "Ask for less in one request.";
    HeadersTooLarge "headers_too_large" Request, User, Permanent, Usage:
        "The headers of the request are too large.", "Send fewer headers.";
    BodyTimeout "body_timeout" Request, Network, Transient, Failed:
        "The body of the request did not arrive in time.", "Send the request again.";
    NoSuchRoute "no_such_route" Request, User, Permanent, Failed:
        "The API has no such route.", "Compare the path with the description of the API; a newer program may need a newer node.";
    NoSuchMethod "no_such_method" Request, User, Permanent, Failed:
        "The route has no such method.", "Compare the method with the description of the API.";
    NoSuchJob "no_such_job" Request, User, Permanent, Failed:
        "No job has this id.", "List the jobs with: godwit job list.";
    NotDivided "not_divided" Request, User, Permanent, Failed:
        "The job has no divided work now.", "Look at the job itself.";
    NoManifest "no_manifest" Request, User, Permanent, Failed:
        "The job has no manifest here.", "Submit the job with a manifest, or ask the node that ran the job.";
    UnknownSite "unknown_site" Request, User, Permanent, Failed:
        "The node knows no site of this name.", "List the sites with: godwit site list.";
    SiteChanged "site_changed" Request, User, Permanent, Failed:
        "The identity of the site has changed meanwhile.", "Check the site with: godwit site list.";
    UnknownUser "unknown_user" Request, User, Permanent, Authentication:
        "The node has no user of this name.", "Ask an admin of the node to add the user.";
    UserDisabled "user_disabled" Request, User, Permanent, Authentication:
        "The user is disabled on the node.", "Ask an admin of the node.";
    NameTaken "name_taken" Request, User, Permanent, Failed:
        "Another node, user or account has the name.", "Choose another name.";
    NoCredentials "no_credentials" Request, User, Permanent, Authentication:
        "The request does not prove who sends it.", "Send a token, or sign in.";
    TokenRevoked "token_revoked" Request, User, Permanent, Authentication:
        "The token was revoked.", "Make another token.";
    TokenExpired "token_expired" Request, User, Permanent, Authentication:
        "The token has expired.", "Make another token.";
    SessionEnded "session_ended" Request, User, Permanent, Authentication:
        "The session has ended.", "Sign in again.";
    NotFromPage "not_from_page" Request, User, Permanent, Authentication:
        "A request with a session did not come from the page of the node.", "Send a token instead.";
    WrongPassword "wrong_password" Request, User, Permanent, Authentication:
        "The user or the password is wrong.", "Try again, or ask an admin of the node for a new password.";
    NoPassword "no_password" Request, User, Permanent, Authentication:
        "The user has no password.", "Ask an admin of the node for a password.";
    RoleTooSmall "role_too_small" Request, User, Permanent, Authentication:
        "The role of the user does not include this.", "Ask an admin of the node.";
    TooDerived "too_derived" Request, User, Permanent, Authentication:
        "The token is the last of too long a chain of tokens.", "Make the new token with an earlier token of the chain.";
    NotYourJob "not_your_job" Request, User, Permanent, Authentication:
        "The job belongs to another user.", "Ask the owner of the job, or an admin of the node.";
    NotYourToken "not_your_token" Request, User, Permanent, Authentication:
        "The token belongs to another user.", "Ask its owner, or an admin of the node.";
    NotYourSchedule "not_your_schedule" Request, User, Permanent, Authentication:
        "The schedule belongs to another user.", "Ask its owner, or an admin of the node.";
    NotYourFlow "not_your_flow" Request, User, Permanent, Authentication:
        "The flow belongs to another user.", "Ask its owner, or an admin of the node.";
    RuleOfAJob "rule_of_a_job" Request, User, Permanent, Failed:
        "The access rule was made for a job, and ends with the job.", "Cancel the job; this removes the rule.";
    RuleOfAnotherSite "rule_of_another_site" Request, User, Permanent, Failed:
        "The access rule belongs to another site.", "Name that site, or an export of this node.";
    NotGranted "not_granted" Request, User, Permanent, Authentication:
        "No access rule allows this to the caller.", "Ask an admin for the access that the message names.";
    Denied "denied" Request, User, Permanent, Authentication:
        "The caller may not send this command.", "Ask an admin of the node.";
    TooMany "too_many" Request, User, Permanent, Failed:
        "The limit for objects of this kind is reached.", "Remove some first.";
    TooManyRequests "too_many_requests" Request, User, Transient, Failed:
        "The node has too many requests at once.", "Send the request again a moment later.";
    TooManyChanges "too_many_changes" Request, User, Transient, Failed:
        "Too many changes came in a short time.", "Wait for as long as the message says.";
    TooManyLogins "too_many_logins" Request, User, Transient, Failed:
        "Too many log-ins failed.", "Wait for as long as the message says.";
    TooManyStreams "too_many_streams" Request, User, Transient, Failed:
        "Too many streams of events are open.", "Close some of them.";
    Busy "busy" Request, Peer, Transient, Failed:
        "The node has too much to do at this moment.", "Try again a moment later.";
    Conflict "conflict" Request, User, Permanent, Failed:
        "Another change came first.", "Read the object again, and change its present state.";
    ForbiddenTransition "forbidden_transition" Request, User, Permanent, Failed:
        "The state of the job does not allow this.", "Check the state of the job.";
    StaleEpoch "stale_epoch" Request, ThisMachine, Permanent, Failed:
        "Another node has taken the job since.", "No action is needed; that node runs the job.";
    Duplicate "duplicate" Request, User, Permanent, Failed:
        "A job was submitted with this idempotency key before.", "Look at the job that the message names.";
    AlreadyFired "already_fired" Request, ThisMachine, Permanent, Failed:
        "The schedule has fired for this time.", "No action is needed.";
    NotLeader "not_leader" Request, Peer, Transient, Failed:
        "The node does not lead its cluster.", "Try again a moment later.";
    NoLeader "no_leader" Request, Peer, Transient, Failed:
        "No node leads the cluster, or too few nodes can be reached.", "Try again a moment later; start the nodes that are down.";
    NoMajority "no_majority" Request, Peer, Transient, Failed:
        "Too few nodes of the cluster can be reached.", "Start the nodes that are down, or mend the network between them.";
    LeaderUnable "leader_unable" Request, Peer, Transient, Failed:
        "The node that leads the cluster cannot write.", "Correct the fault that the message names at that node.";
    OutcomeUnknown "outcome_unknown" Request, Peer, Transient, Failed:
        "The node does not know whether the change was made.", "Check whether the change was made, then try again.";
    NodeUnreachable "node_unreachable" Request, Peer, Transient, Failed:
        "Another node of the cluster keeps the requested data, and does not answer.", "Try again once that node runs.";
    DiskFull "disk_full" Request, ThisMachine, Transient, Failed:
        "The file system of the node's state is full.", "Free some space in the GODWIT_HOME of the node.";
    StateStopped "state_stopped" Request, ThisMachine, Transient, Failed:
        "The state of the node has stopped.", "Read the log of the node, and start the node again.";
    StateUnreadable "state_unreadable" Request, ThisMachine, Permanent, Failed:
        "The node cannot read its state.", "Read the log of the node, and correct the fault that the log names.";
    GrantsUnreadable "grants_unreadable" Request, ThisMachine, Permanent, Failed:
        "The node cannot read its file of grants.", "Correct the file that the log of the node names.";
    FileUnreadable "file_unreadable" Request, ThisMachine, Permanent, Failed:
        "The node cannot read one of its files.", "Correct the file that the log of the node names.";
    RefusedBySite "refused_by_site" Request, Peer, Permanent, Failed:
        "The other site refused.", "Ask the operator of that site.";
    UnknownIdentity "unknown_identity" Request, User, Permanent, Authentication:
        "The other node does not know the identity of the asking node.", "Ask that node's operator to run the command in the message.";
    Outside "outside" Request, User, Permanent, Usage:
        "The path leaves the export.", "Name a path within the export that contains no symbolic links.";
    NotLetIn "not_let_in" Request, Peer, Permanent, Authentication:
        "The asking node has no access for the job that it names.", "Run the job again.";
    OtherPlace "other_place" Request, Destination, Permanent, Failed:
        "The place is on a different file system than at the node that made the mark.", "Mount the same file system at all nodes of the site.";
    NoSuchClaim "no_such_claim" Request, Peer, Transient, Failed:
        "The claim has ended, was never set, or has another epoch.", "No action is needed; the controller of the job claims again.";
    NotADirectory "not_a_directory" Request, User, Permanent, Failed:
        "The path is no directory.", "Name a directory.";
    Exists "exists" Request, User, Permanent, Failed:
        "An entry already exists at the path, or a directory is not empty.", "Name another path, or remove the existing entry.";
    GivenUp "given_up" Request, Peer, Transient, Failed:
        "The work was stopped before its end.", "Ask again.";
    OtherCluster "other_cluster" Request, Peer, Permanent, Failed:
        "The asking node does not belong to the cluster.", "Let the node join the cluster with a new invitation.";
    Recovered "recovered" Request, Peer, Permanent, Failed:
        "The cluster was recovered without the asking node.", "Let the node join the cluster with a new invitation.";
    BadInvitation "bad_invitation" Request, User, Permanent, Failed:
        "The invitation is not valid.", "Make a new invitation with: godwit cluster invite.";
    Broken "broken" Request, Peer, Transient, Failed:
        "The other side was reached, but did not answer correctly.", "Try again; if the failure repeats, compare the versions of both sides.";
    Foreign "foreign" Request, Peer, Permanent, Failed:
        "The answer did not come from a godwit node.", "Check the address, and any proxy between this machine and the node.";

    Waiting "waiting" Reason, ThisMachine, Transient, Failed:
        "The job waits for a node.", "Wait.";
    NotBefore "not_before" Reason, User, Transient, Failed:
        "The job must not begin yet.", "Wait for that time.";
    JobsOfNode "jobs_of_node" Reason, ThisMachine, Transient, Failed:
        "The node has reached its limit of running jobs.", "Wait for one of them to end.";
    JobsOfOwner "jobs_of_owner" Reason, User, Transient, Failed:
        "The node has reached its limit of running jobs for this owner.", "Wait for one of them to end.";
    JobsOfSite "jobs_of_site" Reason, Peer, Transient, Failed:
        "The node has reached its limit of running jobs with this site.", "Wait for one of them to end.";
    OtherSource "other_source" Reason, ThisMachine, Transient, Failed:
        "Another source of the job is merged into the same directory first.", "Wait for it to end.";
    NoNode "no_node" Reason, ThisMachine, Transient, Failed:
        "No node has the exports of the job.", "Start a node with these exports.";
    NodesDrained "nodes_drained" Reason, User, Transient, Failed:
        "Every node that has the exports of the job is drained.", "Let one of these nodes take jobs again.";
    NodeRestarted "node_restarted" Reason, ThisMachine, Transient, Failed:
        "The node that ran the job was started again.", "Wait; the job resumes.";
    NodeLost "node_lost" Reason, Peer, Transient, Failed:
        "The node that ran the job is silent, or was removed.", "Wait; another node resumes the job.";
    NoThread "no_thread" Reason, ThisMachine, Transient, Failed:
        "The node could start no thread for the job.", "Raise the limits of the process.";
    PausedByUser "paused_by_user" Reason, User, Permanent, Interrupted:
        "A user paused the job.", "Resume the job with: godwit job resume.";
    ResumedByUser "resumed_by_user" Reason, User, Transient, Failed:
        "A user resumed the job.", "Wait.";
    RetriedByUser "retried_by_user" Reason, User, Transient, Failed:
        "A user started the job again.", "Wait.";
    CancelledByUser "cancelled_by_user" Reason, User, Permanent, Interrupted:
        "A user cancelled the job.", "Start the job again with: godwit job retry.";
    UserRemoved "user_removed" Reason, User, Permanent, Failed:
        "The owner is no longer a user of the node.", "Submit the job as another user.";
    DeadlinePassed "deadline_passed" Reason, User, Permanent, Failed:
        "The deadline of the job passed.", "Submit the job with a later deadline.";
    RetriesExhausted "retries_exhausted" Reason, NamedSide, Permanent, Failed:
        "The job used up its retries.", "Correct the fault that the message names, then run the job again.";
    ThirdParty "third_party" Reason, ThisMachine, Transient, Failed:
        "The transfer runs at another site.", "No action is needed.";
    Relaying "relaying" Reason, ThisMachine, Transient, Failed:
        "The destination takes its data from another destination of the job.", "Wait.";
    Relayed "relayed" Reason, ThisMachine, Permanent, Complete:
        "Data came from another destination of the job, and was checked by the digests of the source.", "No action is needed.";
    RelayChanged "relay_changed" Reason, Source, Permanent, Failed:
        "The destination that was to give its data cannot be shown to have what the source sent.", "No action is needed; the data comes from the source.";
    RelayWrong "relay_wrong" Reason, Source, Permanent, Failed:
        "A destination gave other data than the source had sent it.", "Find out why that destination sends other data; the data comes from the source.";
    UnknownTimeZone "unknown_time_zone" Reason, User, Permanent, Failed:
        "The time zone of a schedule is not known to the node.", "Name another time zone, or install the time zone data.";
    Complete "complete" Reason, ThisMachine, Permanent, Complete:
        "The whole job is done.", "No action is needed.";
    Interrupted "interrupted" Reason, NamedSide, Transient, Interrupted:
        "The transfer was stopped before its end.", "Give the same command again; it resumes.";
    EntriesFailed "entries_failed" Reason, NamedSide, Permanent, Partial:
        "Some entries failed; all others are complete.", "Correct the fault of each failed entry, then run the job again.";
    NotDeleted "not_deleted" Reason, Destination, Permanent, Partial:
        "Entries were not deleted.", "Correct the fault that the message names, then run the job again.";
    LateCalls "late_calls" Reason, Destination, Permanent, Complete:
        "System calls that hung at a node may still change attributes of directories.", "Check the directories that the message names.";
    Missing "missing" Reason, Destination, Permanent, Partial:
        "The copy lacks an entry of the manifest.", "Copy the entry again, or find out who removed it.";
    Content "content" Reason, Destination, Permanent, Partial:
        "The contents of the copy differ from the manifest.", "Copy the file again, or find out who changed it.";
    Unread "unread" Reason, Destination, Permanent, Partial:
        "An entry of the copy could not be read.", "Correct the fault that the message names, then check the copy again.";
    Extra "extra" Reason, Destination, Permanent, Partial:
        "The copy has entries that the manifest does not list.", "Remove the entries, or find out who made them.";
}
