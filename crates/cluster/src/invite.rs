//! Owns invitations: the form of a token, the stored part of it, and the creation of an invitation. Admits no node: the state decides
//! whether an invitation is valid.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use godwit_state::{Actor, Change, Command, Invite, Op, ProposeError, Timestamp, sortable_id};

use crate::Cluster;

/// The beginning of each token, by which scanners of published files find it.
const PREFIX: &str = "gwi1-";

/// Random bytes of a secret.
const SECRET_BYTES: usize = 20;

/// An invitation for the joining node: a secret, and the identity of the inviting node.
#[derive(Clone, Eq, PartialEq)]
pub struct Token {
    /// Secret that the joining node must present.
    pub secret: String,
    /// Identity that the asked node must prove.
    pub identity: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(…, {})", self.identity)
    }
}

impl Token {
    /// The text that the operator passes on.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{}-{}", self.secret, self.identity)
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "this is not an invitation, which begins with gwi1-; make an invitation with: godwit cluster invite";
        let rest = text.trim().strip_prefix(PREFIX).ok_or(WRONG)?;
        let (secret, identity) = rest.split_once('-').ok_or(WRONG)?;
        if secret.is_empty() || identity.is_empty() {
            return Err(WRONG);
        }
        Ok(Self {
            secret: secret.to_owned(),
            identity: identity.to_owned(),
        })
    }
}

/// A new invitation.
pub struct Invited {
    /// Id of the invitation, with which it can be revoked.
    pub id: String,
    /// The token for the joining node.
    pub token: Token,
}

impl Cluster {
    /// Makes an invitation that is valid until `expires`, for one node. The invitation ends when any of the tokens ends. Blocks until the
    /// state contains the invitation.
    ///
    /// # Errors
    /// The state cannot be changed.
    pub fn invite(
        &self,
        actor: Actor,
        tokens: Vec<String>,
        expires: Timestamp,
    ) -> Result<Invited, ProposeError> {
        let shared = &self.shared;
        self.make_own_row()?;
        let mut bytes = [0; SECRET_BYTES];
        let random = getrandom::fill(&mut bytes).and_then(|()| getrandom::u32());
        let random = random.map_err(|error| {
            ProposeError::Ended(godwit_state::Ended(format!(
                "the system gives no random numbers: {error}"
            )))
        })?;
        let secret = BASE32_NOPAD.encode(&bytes).to_lowercase();
        let now = (shared.config.now)();
        let id = sortable_id(now, random);
        let invite = Invite {
            id: id.clone(),
            hash: Invite::hash_of(&secret),
            expires,
            created: None,
            ended: None,
            used: None,
            via: None,
            by: None,
            tokens,
        };
        let op = Op::Invite(Change::Create(invite));
        let command = Command::new(now, actor, op);
        shared.config.replica.propose_blocking(command)?;
        let token = Token {
            secret,
            identity: shared.config.identity.clone(),
        };
        Ok(Invited { id, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = Token {
            secret: "abc".to_owned(),
            identity: "gw1-def".to_owned(),
        };
        assert_eq!(token.text(), "gwi1-abc-gw1-def");
        assert_eq!(token.text().parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("abc"));
        for wrong in ["", "gwi1-", "gwi1-abc", "gwi1--gw1-x", "gwt_abc"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
