//! Owns the subject of a grant: the identity of a node or client, or a user of the node.
//! Proves no identity.

use std::fmt;
use std::str::FromStr;

use super::GrantError;

/// Prefix of the name of a user.
pub const USER_PREFIX: &str = "user:";

/// The subject of a grant.
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
        let identity = identity_of(text).ok_or_else(|| {
            GrantError(format!(
                "{text:?} is neither {IDENTITY_FORM}, nor {USER_PREFIX}NAME"
            ))
        })?;
        Ok(Self::Identity(identity))
    }
}

/// Checks that a text has the form of an identity, and returns the identity in lower case.
///
/// # Errors
/// Says what an identity looks like.
pub fn check_identity(text: &str) -> Result<String, GrantError> {
    identity_of(text).ok_or_else(|| GrantError(format!("{text:?} is not {IDENTITY_FORM}")))
}

fn identity_of(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix(IDENTITY_PREFIX)?;
    let is_digit = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
    let fits = digits.len() == IDENTITY_DIGITS && digits.bytes().all(is_digit);
    fits.then_some(lower)
}

/// Longest name that the state accepts.
const NAME_BYTES_MAX: usize = 255;
const IDENTITY_PREFIX: &str = "gw1-";
const IDENTITY_FORM: &str =
    "an identity, which is gw1- and 52 letters and digits, as `godwit id` prints it";
/// 256 bits, five a digit.
const IDENTITY_DIGITS: usize = 52;
