//! Owns the users: their passwords, and the end of everything that a removed user had. Does not own tokens (`tokens` does).

use rusqlite::params;

use super::flows::Flows;
use super::invites::Invites;
use super::objects::{self, Objects};
use super::schedules::Schedules;
use super::tokens::Tokens;
use super::{Context, Stop, counts_what_is_left, jobs, knows_origin};
use crate::bounds;
use crate::model::{
    AccessRule, Change, CommandError, Effect, Flow, LEVEL_KEPT_PASSWORD, LEVEL_LEFT, Limit,
    LimitScope, Names, NewPassword, Node, Object as _, Role, Schedule, Share, Token, TokenOrigin,
    User,
};
use crate::read::{committed_level, object_by_id};

/// The rows of users, as a command changes them.
#[derive(Clone, Copy)]
pub(super) struct Users<'a>(pub(super) &'a Context<'a>);

impl Users<'_> {
    /// A new password revokes the sign-ins with the earlier one. Removing a user also removes the user's tokens (also those that the user made
    /// for others), access rules, limits and share. It also removes unfinished jobs and unused invitations. The user's schedules are disabled.
    /// Therefore a later user of the name, or an account of a machine with the name, inherits none of them.
    pub(super) fn change(&self, change: &Change<User>) -> Result<Effect, Stop> {
        let change = &self.with_password(change)?;
        if let Change::Create(user) | Change::Put(user) = change {
            let earlier = object_by_id::<User>(self.0.db, &user.name)?;
            if knows_origin(self.0.db)? {
                let names = Names::of(&objects::all::<Node>(self.0.db)?);
                names.check_user(user, earlier.as_ref(), &self.0.actor.name)?;
                // An account of a machine has jobs without being a user. Only the account itself may become that user.
                if earlier.is_none() && user.name != self.0.actor.name {
                    self.check_fresh(&user.name)?;
                }
            }
            if earlier.is_some_and(|earlier| earlier.password != user.password) {
                Tokens(self.0).revoke_sign_ins(&user.name, &[])?;
            }
        }
        if let Change::Remove(id) = change {
            Schedules(self.0).disable_of(id)?;
            Flows(self.0).pause_of(id)?;
            // The user for an account of a machine is removed; the account and its jobs stay.
            let removed = object_by_id::<User>(self.0.db, id)?;
            let may_be_account = |user: &User| user.role == Role::Admin && user.password.is_none();
            if removed.is_some_and(|user| !may_be_account(&user)) && counts_what_is_left(self.0.db)?
            {
                jobs::end_of(self.0, id)?;
            }
            Invites(self.0).end_of(|invite| invite.by.as_ref() == Some(id))?;
            self.0.db.execute(
                "DELETE FROM objects WHERE kind = ?1 AND json_extract(body, '$.user') = ?2",
                params![Token::KIND, id],
            )?;
            let by = TokenOrigin::By { maker: id.clone() };
            self.0.db.execute(
                "DELETE FROM objects WHERE kind = ?1 AND json_extract(body, '$.scope') = ?2",
                params![Token::KIND, by.to_string()],
            )?;
            let rules: Vec<String> = self
                .0
                .db
                .prepare_cached(
                    "SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2 ORDER BY id",
                )?
                .query_map(params![AccessRule::KIND, format!("user:{id}")], |row| {
                    row.get(0)
                })?
                .collect::<Result<_, _>>()?;
            for rule in rules {
                Objects(self.0).remove::<AccessRule>(&rule)?;
            }
            if committed_level(self.0.db)? >= LEVEL_LEFT {
                self.remove_shares(id)?;
            }
        }
        Objects(self.0).change(change)
    }

    /// The change, with the password of the row if the command puts none. The proposer may have read an older row.
    fn with_password(&self, change: &Change<User>) -> Result<Change<User>, Stop> {
        let mut change = change.clone();
        if let Change::Put(user) = &mut change
            && user.password.is_none()
            && committed_level(self.0.db)? >= LEVEL_KEPT_PASSWORD
        {
            let row = object_by_id::<User>(self.0.db, &user.name)?;
            user.password = row.and_then(|row| row.password);
        }
        Ok(change)
    }

    /// Changes the password that the user proved, and revokes the sign-ins with it except those of the request.
    pub(super) fn password(&self, new: &NewPassword) -> Result<Effect, Stop> {
        bounds::count("keep", new.keep.len(), bounds::LIST_MAX)?;
        let user = object_by_id::<User>(self.0.db, &new.user)?
            .ok_or_else(|| CommandError::not_found(User::KIND, &new.user))?;
        if user.disabled {
            return Err(CommandError::invalid("user", "the user is disabled").into());
        }
        if user.password.as_ref() != Some(&new.earlier) {
            let what = "another request has changed it meanwhile";
            return Err(CommandError::invalid("password", what).into());
        }
        Tokens(self.0).revoke_sign_ins(&user.name, &new.keep)?;
        let password = Some(new.password.clone());
        Objects(self.0).put(&User { password, ..user })
    }

    /// Refuses the name of a new user while schedules, flows or jobs of an earlier user remain under it.
    fn check_fresh(&self, name: &str) -> Result<(), Stop> {
        if committed_level(self.0.db)? < LEVEL_LEFT {
            return Ok(());
        }
        let schedules = objects::all::<Schedule>(self.0.db)?;
        if let Some(left) = schedules.iter().find(|one| one.owner == name) {
            let what = format!(
                "the schedule {:?} of an earlier user {name:?} still exists; remove the schedule first",
                left.id
            );
            return Err(CommandError::invalid("name", what).into());
        }
        let flows = objects::all::<Flow>(self.0.db)?;
        if let Some(left) = flows.iter().find(|one| one.owner == name) {
            let what = format!(
                "the flow {:?} of an earlier user {name:?} still exists; remove the flow first",
                left.id
            );
            return Err(CommandError::invalid("name", what).into());
        }
        let has_jobs: bool = self
            .0
            .db
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM jobs WHERE owner = ?1)")?
            .query_row([name], |row| row.get(0))?;
        match has_jobs {
            true => {
                let what = format!("jobs of an earlier user {name:?} are in the history");
                Err(CommandError::invalid("name", what).into())
            }
            false => Ok(()),
        }
    }

    /// Removes the limits and the share of an owner.
    fn remove_shares(&self, owner: &str) -> Result<(), Stop> {
        for limit in objects::all::<Limit>(self.0.db)? {
            if limit.scope == LimitScope::Owner && limit.name == owner {
                Objects(self.0).remove::<Limit>(&limit.id())?;
            }
        }
        if object_by_id::<Share>(self.0.db, owner)?.is_some() {
            Objects(self.0).remove::<Share>(owner)?;
        }
        Ok(())
    }
}
