//! Owns the origin of a token: requested, made with another token, a log-in, or a session of the page. Does
//! not check tokens; `web` does.

use std::fmt;

/// The origin of a token. Its text is the scope of the token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenOrigin {
    /// Made on request of a user. If the token has a parent, the request used that parent token.
    Made {
        /// Id of the token used for the request.
        parent: Option<String>,
    },
    /// Made for another user by an admin without a token, or with a password. The token ends with this admin.
    By {
        /// Name of the admin.
        maker: String,
    },
    /// A log-in with a password.
    LogIn,
    /// A session of the page. If the session has a parent, the sign-in used that token instead of a password.
    Session {
        /// Id of the token that was exchanged.
        parent: Option<String>,
    },
}

impl TokenOrigin {
    /// Parses a scope. `None` for a scope of a newer program: such a token must not be trusted.
    #[must_use]
    pub fn of_scope(scope: &str) -> Option<Self> {
        let (kind, parent) = match scope.split_once(' ') {
            Some((kind, parent)) if !parent.is_empty() => (kind, Some(parent.to_owned())),
            Some(_) => return None,
            None => (scope, None),
        };
        match (kind, parent) {
            ("", None) => Some(Self::Made { parent: None }),
            ("token", Some(parent)) => Some(Self::Made {
                parent: Some(parent),
            }),
            ("by", Some(maker)) => Some(Self::By { maker }),
            ("login", None) => Some(Self::LogIn),
            ("session", parent) => Some(Self::Session { parent }),
            _ => None,
        }
    }

    /// Id of the token that must be valid for this one to be valid.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        match self {
            Self::Made { parent } | Self::Session { parent } => parent.as_deref(),
            Self::LogIn | Self::By { .. } => None,
        }
    }

    /// Name of the admin that must exist for this token to be valid.
    #[must_use]
    pub fn maker(&self) -> Option<&str> {
        match self {
            Self::By { maker } => Some(maker),
            _ => None,
        }
    }

    /// Whether the user got the token by signing in, so that a new password ends it.
    #[must_use]
    pub const fn is_sign_in(&self) -> bool {
        matches!(self, Self::LogIn | Self::Session { .. })
    }
}

impl fmt::Display for TokenOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, parent) = match self {
            Self::Made { parent: None } => return Ok(()),
            Self::Made { parent } => ("token", parent),
            Self::By { maker } => return write!(f, "by {maker}"),
            Self::LogIn => ("login", &None),
            Self::Session { parent } => ("session", parent),
        };
        f.write_str(kind)?;
        parent
            .as_ref()
            .map_or(Ok(()), |parent| write!(f, " {parent}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_written_and_no_other_is() {
        for scope in ["", "login", "session", "session 0ab", "token 0ab"] {
            let origin = TokenOrigin::of_scope(scope).expect("known");
            assert_eq!(origin.to_string(), scope);
            assert_eq!(origin.parent().is_some(), scope.ends_with("0ab"), "{scope}");
        }
        let by = TokenOrigin::of_scope("by ada").expect("known");
        assert_eq!(
            (by.to_string().as_str(), by.maker()),
            ("by ada", Some("ada"))
        );
        for scope in [
            "token",
            "by",
            "by ",
            "session ",
            "login 0ab",
            "sessions",
            " ",
            "admin",
        ] {
            assert_eq!(TokenOrigin::of_scope(scope), None, "{scope:?}");
        }
    }
}
