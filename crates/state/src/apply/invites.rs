//! Owns invitations: making and revoking them, and their end with the node, the user or the token that made them. Does not admit nodes
//! (`nodes` does).

use rusqlite::Connection;

use super::objects::{self, Objects};
use super::{Context, Stop, knows_origin, nodes};
use crate::model::{
    Change, CommandError, Effect, Invite, LEVEL_INVITES, Names, Node, Object as _, Role, Timestamp,
    Token, TokenOrigin, User,
};
use crate::read::{committed_level, object_by_id};

/// The rows of invitations, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Invites<'a>(pub(super) &'a Context<'a>);

impl Invites<'_> {
    /// Makes or revokes an invitation. It ends with the node, the user and the tokens that made it.
    pub(super) fn change(&self, change: &Change<Invite>) -> Result<Effect, Stop> {
        if !knows_origin(self.0.db)? {
            return Objects(self.0).change(change);
        }
        let names_all = committed_level(self.0.db)? >= LEVEL_INVITES;
        match change {
            Change::Create(invite) => {
                let is_of_user = self.0.actor.role.is_some();
                let invite = Invite {
                    created: names_all.then_some(self.0.at),
                    ended: None,
                    used: None,
                    via: self.0.actor.via,
                    by: (is_of_user && names_all).then(|| self.0.actor.name.clone()),
                    ..invite.clone()
                };
                Objects(self.0).change(&Change::Create(invite))
            }
            Change::Put(_) => {
                Err(CommandError::invalid("invite", "an invitation cannot be changed").into())
            }
            Change::Remove(id) if names_all => self.revoke(id),
            Change::Remove(_) => Objects(self.0).change(change),
        }
    }

    /// Ends an invitation by which no node has joined. A member stays even if its invitation ends.
    fn revoke(&self, id: &str) -> Result<Effect, Stop> {
        let invite = object_by_id::<Invite>(self.0.db, id)?
            .ok_or_else(|| CommandError::not_found(Invite::KIND, id))?;
        let used = invite.used.as_ref();
        let joined = used.map(|by| nodes::by_lookup::<Node>(self.0.db, by));
        if let Some(node) = joined.transpose()?.flatten() {
            let what = format!(
                "the node {0} has joined with this invitation; to remove the node: godwit cluster remove {0}",
                node.name
            );
            return Err(CommandError::invalid("invite", what).into());
        }
        self.end(invite)
    }

    /// Ends an invitation. Its row stays until the history is deleted, so that the holder of its secret can learn that it has ended.
    fn end(&self, invite: Invite) -> Result<Effect, Stop> {
        if committed_level(self.0.db)? < LEVEL_INVITES {
            return Objects(self.0).change(&Change::<Invite>::Remove(invite.id));
        }
        let ended = invite.ended.or_else(|| Some(invite.expires.min(self.0.at)));
        Objects(self.0).put(&Invite { ended, ..invite })
    }

    /// Ends the invitations of a removed node: those that it made, and those by which it joined.
    pub(super) fn burn(&self, name: &str) -> Result<(), Stop> {
        let Some(node) = object_by_id::<Node>(self.0.db, name)? else {
            return Ok(());
        };
        for invite in objects::all::<Invite>(self.0.db)? {
            let joined_by = invite.used.as_deref() == Some(node.identity.as_str());
            if joined_by || invite.via == Some(node.number) {
                self.end(invite)?;
            }
        }
        Ok(())
    }

    /// Ends the unused invitations that a removed user or a revoked token made. A node that has joined may still repeat its join.
    pub(super) fn end_of(&self, is_of: impl Fn(&Invite) -> bool) -> Result<(), Stop> {
        if committed_level(self.0.db)? < LEVEL_INVITES {
            return Ok(());
        }
        for invite in objects::all::<Invite>(self.0.db)? {
            if invite.used.is_none() && is_of(&invite) {
                self.end(invite)?;
            }
        }
        Ok(())
    }
}

/// Whether the invitation was revoked or has expired.
pub(super) fn check_end(invite: &Invite, at: Timestamp) -> Result<(), Stop> {
    let ended = invite
        .ended
        .or_else(|| Some(invite.expires).filter(|expires| *expires <= at));
    match ended {
        Some(ended) => {
            let what = format!("the invitation ended at {}", ended.utc());
            Err(CommandError::invalid("token", what).into())
        }
        None => Ok(()),
    }
}

/// Whether the maker of an invitation could still make it: an enabled admin, by tokens that are all valid. An account of a machine is an
/// admin regardless of its row, and the invitations of a removed user have ended.
pub(super) fn check_maker(db: &Connection, invite: &Invite, at: Timestamp) -> Result<(), Stop> {
    let no = |why: String| {
        let what = format!("the invitation has ended: {why}");
        Err(CommandError::invalid("token", what).into())
    };
    let is_admin = |user: &User| user.role == Role::Admin && !user.disabled;
    let is_account = |name: &str| -> Result<bool, Stop> {
        Ok(Names::of(&objects::all::<Node>(db)?).is_account(name))
    };
    if let Some(by) = &invite.by
        && object_by_id::<User>(db, by)?.is_some_and(|user| !is_admin(&user))
        && !is_account(by)?
    {
        return no(format!("its maker {by} is no longer an admin"));
    }
    for id in &invite.tokens {
        let token = object_by_id::<Token>(db, id)?;
        let is_good = |token: &Token| {
            token.revoked.is_none()
                && token.role == Role::Admin
                && token.expires.is_none_or(|expires| expires > at)
        };
        let Some(token) = token.filter(is_good) else {
            return no(format!("the token {id}, which made it, has ended"));
        };
        if !object_by_id::<User>(db, &token.user)?.is_some_and(|user| is_admin(&user)) {
            let user = &token.user;
            return no(format!(
                "the user {user} of the token {id}, which made it, is no longer an admin"
            ));
        }
        let Some(origin) = TokenOrigin::of_scope(&token.scope) else {
            return no(format!(
                "the token {id}, which made it, has an unknown origin"
            ));
        };
        if let Some(maker) = origin.maker()
            && !object_by_id::<User>(db, maker)?.is_some_and(|user| is_admin(&user))
        {
            return no(format!(
                "the maker {maker} of the token {id} is no longer an admin"
            ));
        }
    }
    Ok(())
}
