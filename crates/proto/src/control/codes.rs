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

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

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
}
