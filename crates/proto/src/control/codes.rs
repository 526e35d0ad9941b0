//! Owns the numbers in control messages: directions and error codes. Does not interpret them.

/// Direction of the data, from the client's point of view. Unknown values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Direction(pub u32);

impl Direction {
    /// The client sends.
    pub const PUSH: Self = Self(1);
    /// The client receives.
    pub const PULL: Self = Self(2);
    /// The client announces the expected state of a copy at the daemon, and gets the differences.
    pub const VERIFY: Self = Self(3);
}

/// Reason, for programs, why a transfer or connection cannot continue. Unknown values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

/// Numbers from here on are for failures that a client detects itself.
const OWN_FIRST: u32 = 64;

impl ErrorCode {
    /// This is not a failure, so it has no row in the catalogue. The source may see the destination's file system
    /// under other numbers, so the client must open the transfer again with a [`Beacon`](super::Beacon).
    pub const BEACON: Self = Self(25);

    /// The code that a peer sent; a number reserved for this side becomes an unknown code.
    #[must_use]
    pub const fn received(number: u32) -> Self {
        if number < OWN_FIRST {
            Self(number)
        } else {
            Self(0)
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// All codes known here.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code's name, `unknown` for an unknown code.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    _ => "unknown",
                }
            }
        }
    };
}

codes! {
    /// The two sides have no protocol version in common.
    VERSION = 1;
    /// The peer's identity is unknown here.
    AUTH = 2;
    /// The peer is known but lacks the permission.
    NOT_GRANTED = 3;
    /// There is no export of that name.
    NO_EXPORT = 4;
    /// Another transfer writes there, or too many run.
    BUSY = 5;
    /// The transfer does not exist, or no longer exists.
    UNKNOWN_TRANSFER = 6;
    /// The token was used before or never issued.
    BAD_TOKEN = 7;
    /// A limit was exceeded.
    LIMIT = 8;
    /// The destination cannot be written.
    DESTINATION = 9;
    /// The source cannot be read.
    SOURCE = 10;
    /// The peer broke the protocol.
    PROTOCOL = 11;
    /// An internal error of the reporting program.
    INTERNAL = 12;
    /// A user or a shutdown ended the transfer.
    CANCELLED = 13;
    /// The same transfer was opened again elsewhere.
    SUPERSEDED = 14;
    /// The path leaves the export.
    OUTSIDE = 15;
    /// A tree would be copied into itself.
    INTO_ITSELF = 16;
    /// Too many blocks arrived damaged.
    DAMAGED = 17;
    /// The destination's storage does not make data durable.
    SYNC = 18;
    /// The journal cannot be used.
    JOURNAL = 19;
    /// Data kept on disk for the end of the transfer is lost.
    SPILL = 20;
    /// Temporary files of an earlier run could not be removed.
    LEFTOVERS = 21;
    /// The output accepts no more data.
    OUTPUT = 22;
    /// No thread, descriptor or memory is left.
    RESOURCES = 23;
    /// This machine does not support the request.
    NOT_SUPPORTED = 24;
    /// The export exists, but its file system is unavailable: not mounted, replaced by another one, or not
    /// responding.
    EXPORT_AWAY = 26;
    /// The source is empty, and the deletion would empty the destination.
    EMPTY_SOURCE = 27;

    // The following failures are detected by a client itself. From a peer these numbers have no meaning: see `received`.
    /// No connection worked for the whole retry time.
    LOST = 64;
    /// The user stopped the transfer at this end.
    INTERRUPTED = 65;
    /// No connection can be made.
    UNREACHABLE = 66;
    /// The peer did not answer in time.
    SILENT = 67;
    /// The peer has another identity than the trusted one.
    IDENTITY = 68;
    /// The peer does not use the protocol.
    NOT_GODWIT = 69;
    /// TLS found no agreement.
    TLS = 70;
    /// ssh failed.
    SSH = 71;
    /// ssh refused the login.
    SSH_DENIED = 72;
    /// The command does not exist on the other machine.
    NO_COMMAND = 73;
    /// The command on the other machine is another program.
    BAD_COMMAND = 74;
    /// The agent could not start.
    AGENT = 75;
    /// A requested network path cannot be used.
    CHANNEL = 76;
    /// The transfer stopped, and cannot be resumed.
    NO_RESUME = 77;
}
