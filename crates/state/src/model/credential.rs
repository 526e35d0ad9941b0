//! Owns the commands about passwords, and about tokens that a password proves or that end together.
//! Does not apply them, and checks no secret.

use serde::{Deserialize, Serialize};

use super::{Secret, Token, TokenOrigin};

/// A password that its user changes. No other field of the user changes, so a simultaneous change by an admin is not lost.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// Name of the user.
    pub user: String,
    /// argon2id hash of the password that the user proved.
    pub earlier: Secret,
    /// argon2id hash of the new password.
    pub password: Secret,
    /// Ids of tokens that stay valid: the token of the request, and its parents.
    pub keep: Vec<String>,
}

/// A new token, and the password that the sender proved for it. A node that lags may have checked an earlier password.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProvenToken {
    /// The new token.
    pub token: Token,
    /// argon2id hash of the password that the sender proved.
    pub password: Secret,
}

/// Tokens to revoke. The state selects them: a node that lags does not know the newest ones.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeTokens {
    /// User of the tokens.
    pub user: String,
    /// Also ends tokens for programs, not only those from sign-ins.
    pub made: bool,
    /// Ids of tokens that stay valid: the token of the request, and its parents.
    pub keep: Vec<String>,
}

impl RevokeTokens {
    /// Whether the command ends this token.
    #[must_use]
    pub fn ends(&self, token: &Token) -> bool {
        // A token of unknown origin counts as one from a sign-in.
        let is_sign_in =
            || TokenOrigin::of_scope(&token.scope).is_none_or(|origin| origin.is_sign_in());
        token.user == self.user
            && token.revoked.is_none()
            && !self.keep.contains(&token.id)
            && (self.made || is_sign_in())
    }
}
