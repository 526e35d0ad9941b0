//! Owns who a grant is for: the identity of a node or client, or a user of the node.
//! Proves nobody's identity.

use std::fmt;
use std::str::FromStr;

use super::GrantError;

/// What stands before the name of a user.
pub const USER_PREFIX: &str = "user:";

/// Who a grant is for.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// The identity that a client or node proves on the data port, as `godwit id` prints it.
    Identity(String),
    /// A user of the node's API.
    User(String),
}

impl Subject {
    /// The user of that name.
    #[must_use]
    pub fn user(name: &str) -> Self {
        Self::User(name.to_owned())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(identity) => f.write_str(identity),
            Self::User(name) => write!(f, "{USER_PREFIX}{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        if let Some(name) = text.strip_prefix(USER_PREFIX) {
            let fits = |sign: char| !sign.is_whitespace() && !sign.is_control() && sign != '#';
            return if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
                Ok(Self::User(name.to_owned()))
            } else {
                Err(GrantError(format!("{name:?} cannot be the name of a user")))
            };
        }
        let lower = text.to_ascii_lowercase();
        let is_identity = lower.strip_prefix(IDENTITY_PREFIX).is_some_and(|digits| {
            let digit = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
            digits.len() == IDENTITY_DIGITS && digits.bytes().all(digit)
        });
        if is_identity {
            Ok(Self::Identity(lower))
        } else {
            Err(GrantError(format!(
                "{text:?} is neither an identity, {IDENTITY_PREFIX} and {IDENTITY_DIGITS} letters and digits as `godwit id` \
                 prints it, nor {USER_PREFIX}NAME"
            )))
        }
    }
}

/// The longest name that the state takes.
const NAME_BYTES_MAX: usize = 255;
const IDENTITY_PREFIX: &str = "gw1-";
/// 256 bits, five a digit.
const IDENTITY_DIGITS: usize = 52;
