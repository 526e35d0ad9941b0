//! Owns the tokens of users: making and revoking them. Does not own the secrets, of which the rows have digests.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, params};

use super::invites::Invites;
use super::objects::{self, Objects};
use super::{Context, Stop, knows_origin};
use crate::bounds;
use crate::model::{
    Change, CommandError, Effect, LEVEL_PASSWORD, Names, Node, Object as _, ProvenToken,
    RevokeTokens, Token, TokenOrigin, User,
};
use crate::read::{committed_level, object_by_id};
use crate::seal::{object_body, select_objects};

/// The rows of tokens, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a>(pub(super) &'a Context<'a>);

impl Tokens<'_> {
    /// A token is made once, with at most the role of its user, and revoked once.
    pub(super) fn change(&self, change: &Change<Token>) -> Result<Effect, Stop> {
        match change {
            Change::Create(token) => {
                let user = object_by_id::<User>(self.0.db, &token.user)?
                    .ok_or_else(|| CommandError::not_found(User::KIND, &token.user))?;
                if user.disabled {
                    return Err(CommandError::invalid("user", "the user is disabled").into());
                }
                if knows_origin(self.0.db)? {
                    let names = Names::of(&objects::all::<Node>(self.0.db)?);
                    names.check_made_by(&user, &self.0.actor.name)?;
                }
                if token.role > user.role {
                    let what = format!("user {} is {} only", user.name, user.role.name());
                    return Err(CommandError::invalid("role", what).into());
                }
                let other: Option<String> = self
                    .0
                    .db
                    .prepare_cached("SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2")?
                    .query_row(params![Token::KIND, token.hash.expose()], |row| row.get(0))
                    .optional()?;
                if let Some(id) = other {
                    let kind = Token::KIND.to_owned();
                    return Err(CommandError::Conflict { kind, id }.into());
                }
                Objects(self.0).change(&Change::Create(Token {
                    created: self.0.at,
                    revoked: None,
                    ..token.clone()
                }))
            }
            Change::Put(_) => Err(CommandError::invalid("token", "tokens do not change").into()),
            Change::Remove(id) => {
                let mut token = object_by_id::<Token>(self.0.db, id)?
                    .ok_or_else(|| CommandError::not_found(Token::KIND, id))?;
                token.revoked = token.revoked.or(Some(self.0.at));
                Invites(self.0).end_of(|invite| invite.tokens.contains(id))?;
                Objects(self.0).put(&token)
            }
        }
    }

    /// Makes a token with the sender's password, unless the password is another one by now. The node that checked it may lag.
    pub(super) fn proven(&self, new: &ProvenToken) -> Result<Effect, Stop> {
        let sender = &self.0.actor.name;
        let user = object_by_id::<User>(self.0.db, sender)?
            .ok_or_else(|| CommandError::not_found(User::KIND, sender))?;
        if user.disabled {
            return Err(CommandError::invalid("user", "the user is disabled").into());
        }
        if user.password.as_ref() != Some(&new.password) {
            let what = "another request has changed it meanwhile";
            return Err(CommandError::invalid("password", what).into());
        }
        self.change(&Change::Create(new.token.clone()))
    }

    /// Revokes the tokens that a user got by signing in, except those to keep.
    pub(super) fn revoke_sign_ins(&self, user: &str, keep: &[String]) -> Result<(), Stop> {
        let by_origin = committed_level(self.0.db)? >= LEVEL_PASSWORD;
        let ends = |scope: &str| match TokenOrigin::of_scope(scope) {
            Some(origin) if by_origin => origin.is_sign_in(),
            _ => !scope.is_empty(),
        };
        for mut token in self.of(user)? {
            if token.revoked.is_none() && ends(&token.scope) && !keep.contains(&token.id) {
                token.revoked = Some(self.0.at);
                Objects(self.0).put(&token)?;
            }
        }
        Ok(())
    }

    /// Revokes the tokens that the command selects, and ends the invitations that they made.
    pub(super) fn revoke(&self, which: &RevokeTokens) -> Result<Effect, Stop> {
        bounds::count("keep", which.keep.len(), bounds::LIST_MAX)?;
        let mut revoked = BTreeSet::new();
        for mut token in self.of(&which.user)? {
            if which.ends(&token) {
                token.revoked = Some(self.0.at);
                Objects(self.0).put(&token)?;
                revoked.insert(token.id);
            }
        }
        Invites(self.0).end_of(|invite| invite.tokens.iter().any(|id| revoked.contains(id)))?;
        Ok(Effect::Done)
    }

    /// The tokens of a user, by id.
    fn of(&self, user: &str) -> Result<Vec<Token>, Stop> {
        let bodies: Vec<String> = self
            .0
            .db
            .prepare_cached(select_objects!(
                "kind = ?1 AND json_extract(body, '$.user') = ?2 ORDER BY id"
            ))?
            .query_map([Token::KIND, user], object_body)?
            .collect::<Result<_, _>>()?;
        let tokens = bodies
            .iter()
            .map(|body| serde_json::from_str::<Token>(body));
        Ok(tokens.collect::<Result<_, _>>()?)
    }
}
