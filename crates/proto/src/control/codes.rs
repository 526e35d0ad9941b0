//! Owns the numbers in control messages: directions and error codes.
//! Does not decide what follows from one.

/// Which way the data goes, seen from the client. Values that are not known here survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Direction(pub u32);

impl Direction {
    /// The client sends.
    pub const PUSH: Self = Self(1);
    /// The client receives.
    pub const PULL: Self = Self(2);
    /// The client announces what a copy at the daemon should be, and learns where it differs.
    pub const VERIFY: Self = Self(3);
}

/// Why a transfer or connection cannot go on, for programs. Values that are not known here survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

/// The numbers from here on are what a client finds by itself.
const OWN_FIRST: u32 = 64;

impl ErrorCode {
    /// No failure, so it has no row among them: the source may see the file system of the destination by other numbers, and the client is to
    /// open the transfer again with a [`Beacon`](super::Beacon).
    pub const BEACON: Self = Self(25);

    /// The code that a peer said; a number that only this side gives stands for nothing then.
    #[must_use]
    pub const fn heard(number: u32) -> Self {
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

            /// All that are known here.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name, `unknown` for one that is not known here.
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
    /// No version of the protocol in common.
    VERSION = 1;
    /// The peer's identity is not known here.
    AUTH = 2;
    /// The peer is known and may not do this.
    NOT_GRANTED = 3;
    /// There is no export of that name.
    NO_EXPORT = 4;
    /// Another transfer writes there, or too many are running.
    BUSY = 5;
    /// No such transfer (any more).
    UNKNOWN_TRANSFER = 6;
    /// The token was used or never given out.
    BAD_TOKEN = 7;
    /// A limit was passed.
    LIMIT = 8;
    /// The destination cannot be written at all.
    DESTINATION = 9;
    /// The source cannot be read at all.
    SOURCE = 10;
    /// A rule of the protocol was broken.
    PROTOCOL = 11;
    /// A fault of the program that says it.
    INTERNAL = 12;
    /// A person or a shutdown ended it.
    CANCELLED = 13;
    /// The same transfer was opened again elsewhere.
    SUPERSEDED = 14;
    /// The path leaves the export.
    OUTSIDE = 15;
    /// A tree would be copied into itself.
    INTO_ITSELF = 16;
    /// Too many blocks arrived damaged.
    DAMAGED = 17;
    /// The storage of the destination does not make data durable.
    SYNC = 18;
    /// The journal cannot be used.
    JOURNAL = 19;
    /// What was kept on disk for the end of the transfer is lost.
    SPILL = 20;
    /// Temporary files of an earlier run stay.
    LEFTOVERS = 21;
    /// The output takes no more.
    OUTPUT = 22;
    /// No thread, descriptor or memory is left.
    RESOURCES = 23;
    /// This machine cannot do what was asked for.
    NOT_SUPPORTED = 24;
    /// The export is there, and its file system is not: it is not mounted, is another one, or does not answer.
    EXPORT_AWAY = 26;

    // What a client finds by itself. From a peer these mean nothing: see `heard`.
    /// No connection worked for as long as it was to be tried.
    LOST = 64;
    /// The user stopped it here.
    INTERRUPTED = 65;
    /// No connection can be made.
    UNREACHABLE = 66;
    /// The peer did not answer in time.
    SILENT = 67;
    /// The peer has another identity than the trusted one.
    IDENTITY = 68;
    /// What answers does not speak the protocol.
    NOT_GODWIT = 69;
    /// TLS found no agreement.
    TLS = 70;
    /// ssh failed.
    SSH = 71;
    /// ssh let nobody in.
    SSH_DENIED = 72;
    /// The other machine has no such command.
    NO_COMMAND = 73;
    /// The command on the other machine is another program.
    BAD_COMMAND = 74;
    /// The agent could not begin.
    AGENT = 75;
    /// A network path that was asked for cannot be used.
    CHANNEL = 76;
    /// It was stopped, and cannot be taken up again.
    NO_RESUME = 77;
}
