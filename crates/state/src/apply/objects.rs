//! Owns changes of the named objects, and the rules that connect them.
//! See `model` for the acceptable values of a single object.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Context, Stop, counts_what_is_left, invites, jobs, knows_origin, notices, sql};
use crate::bounds;
use crate::model::{
    AccessRule, Change, CommandError, Effect, LEVEL_LEFT, LEVEL_PASSWORD, Limit, LimitScope, Names,
    NewJob, NewPassword, Node, Object, Reason, Role, Schedule, Share, Timestamp, Token,
    TokenOrigin, Topic, User, reason,
};
use crate::read::{committed_level, object_by_id};
use crate::seal::{object_body, select_objects};

/// Adds, replaces or removes an object without links to others.
pub(super) fn change<T: Object>(context: &Context<'_>, change: &Change<T>) -> Result<Effect, Stop> {
    match change {
        Change::Create(object) => {
            let id = object.id();
            if object_by_id::<T>(context.db, &id)?.is_some() {
                let kind = T::KIND.to_owned();
                return Err(CommandError::Conflict { kind, id }.into());
            }
            put(context, object)
        }
        Change::Put(object) => put(context, object),
        Change::Remove(id) => remove::<T>(context, id),
    }
}

/// All objects of a kind, by id.
pub(super) fn all<T: Object>(db: &Connection) -> Result<Vec<T>, Stop> {
    let mut statement = db.prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?;
    let bodies = statement.query_map([T::KIND], object_body)?;
    bodies
        .map(|body| Ok(serde_json::from_str(&body?)?))
        .collect()
}

/// A changed schedule keeps its last fired tick; a new one fires for later ticks only. A change clears the reason of the last skipped tick.
pub(super) fn schedule(context: &Context<'_>, change: &Change<Schedule>) -> Result<Effect, Stop> {
    let with_fired = |given: &Schedule| -> Result<Schedule, Stop> {
        let earlier = object_by_id::<Schedule>(context.db, &given.id)?;
        let fired = earlier.map_or(Some(context.at), |earlier| earlier.fired);
        Ok(Schedule {
            fired,
            reason: None,
            ..given.clone()
        })
    };
    let change = match change {
        Change::Create(given) => Change::Create(with_fired(given)?),
        Change::Put(given) => Change::Put(with_fired(given)?),
        Change::Remove(id) => Change::Remove(id.clone()),
    };
    self::change(context, &change)
}

/// Submits the job of a tick, and remembers the tick. A tick without a job keeps its reason.
pub(super) fn fired(
    context: &Context<'_>,
    id: &str,
    tick: Timestamp,
    job: Option<&NewJob>,
    why: Option<&Reason>,
) -> Result<Effect, Stop> {
    let mut schedule = object_by_id::<Schedule>(context.db, id)?
        .ok_or_else(|| CommandError::not_found(Schedule::KIND, id))?;
    // The removal of its owner may have disabled the schedule since the leader checked it.
    if schedule.disabled && counts_what_is_left(context.db)? {
        return Err(CommandError::invalid("schedule", "the schedule is disabled").into());
    }
    if schedule.fired.is_some_and(|fired| fired >= tick) {
        let schedule = id.to_owned();
        return Err(CommandError::AlreadyFired { schedule }.into());
    }
    if let Some(why) = why {
        jobs::check_reason(why)?;
    }
    schedule.fired = Some(tick);
    schedule.reason = why.filter(|_| job.is_none()).cloned();
    put(context, &schedule)?;
    match job {
        Some(job) => jobs::submit(context, job, Some(id)),
        None => Ok(Effect::Done),
    }
}

/// A new password revokes the sign-ins with the earlier one. Removing a user also removes the user's tokens (also those that the user made
/// for others), access rules, limits and share. It also removes unfinished jobs and unused invitations. The user's schedules are disabled.
/// Therefore a later user of the name, or an account of a machine with the name, inherits none of them.
pub(super) fn user(context: &Context<'_>, change: &Change<User>) -> Result<Effect, Stop> {
    if let Change::Create(user) | Change::Put(user) = change {
        let earlier = object_by_id::<User>(context.db, &user.name)?;
        if knows_origin(context.db)? {
            let names = Names::of(&all::<Node>(context.db)?);
            names.check_user(user, earlier.as_ref(), &context.actor.name)?;
            // An account of a machine has jobs without being a user. Only the account itself may become that user.
            if earlier.is_none() && user.name != context.actor.name {
                check_fresh(context, &user.name)?;
            }
        }
        if earlier.is_some_and(|earlier| earlier.password != user.password) {
            revoke_sign_ins(context, &user.name, &[])?;
        }
    }
    if let Change::Remove(id) = change {
        disable_schedules(context, id)?;
        // The user for an account of a machine is removed; the account and its jobs stay.
        let removed = object_by_id::<User>(context.db, id)?;
        let may_be_account = |user: &User| user.role == Role::Admin && user.password.is_none();
        if removed.is_some_and(|user| !may_be_account(&user)) && counts_what_is_left(context.db)? {
            jobs::end_of(context, id)?;
        }
        invites::end_of(context, |invite| invite.by.as_ref() == Some(id))?;
        context.db.execute(
            "DELETE FROM objects WHERE kind = ?1 AND json_extract(body, '$.user') = ?2",
            params![Token::KIND, id],
        )?;
        let by = TokenOrigin::By { maker: id.clone() };
        context.db.execute(
            "DELETE FROM objects WHERE kind = ?1 AND json_extract(body, '$.scope') = ?2",
            params![Token::KIND, by.to_string()],
        )?;
        let rules: Vec<String> = context
            .db
            .prepare_cached("SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2 ORDER BY id")?
            .query_map(params![AccessRule::KIND, format!("user:{id}")], |row| {
                row.get(0)
            })?
            .collect::<Result<_, _>>()?;
        for rule in rules {
            remove::<AccessRule>(context, &rule)?;
        }
        if committed_level(context.db)? >= LEVEL_LEFT {
            remove_shares(context, id)?;
        }
    }
    self::change(context, change)
}

/// Refuses the name of a new user while schedules or jobs of an earlier user remain under it.
fn check_fresh(context: &Context<'_>, name: &str) -> Result<(), Stop> {
    if committed_level(context.db)? < LEVEL_LEFT {
        return Ok(());
    }
    let schedules = all::<Schedule>(context.db)?;
    if let Some(left) = schedules.iter().find(|one| one.owner == name) {
        let what = format!(
            "the schedule {:?} of an earlier user {name:?} still exists; remove the schedule first",
            left.id
        );
        return Err(CommandError::invalid("name", what).into());
    }
    let has_jobs: bool = context
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
fn remove_shares(context: &Context<'_>, owner: &str) -> Result<(), Stop> {
    for limit in all::<Limit>(context.db)? {
        if limit.scope == LimitScope::Owner && limit.name == owner {
            remove::<Limit>(context, &limit.id())?;
        }
    }
    if object_by_id::<Share>(context.db, owner)?.is_some() {
        remove::<Share>(context, owner)?;
    }
    Ok(())
}

/// Changes the password that the user proved, and revokes the sign-ins with it except those of the request.
pub(super) fn password(context: &Context<'_>, new: &NewPassword) -> Result<Effect, Stop> {
    bounds::count("keep", new.keep.len(), bounds::LIST_MAX)?;
    let user = object_by_id::<User>(context.db, &new.user)?
        .ok_or_else(|| CommandError::not_found(User::KIND, &new.user))?;
    if user.disabled {
        return Err(CommandError::invalid("user", "the user is disabled").into());
    }
    if user.password.as_ref() != Some(&new.earlier) {
        let what = "another request has changed it meanwhile";
        return Err(CommandError::invalid("password", what).into());
    }
    revoke_sign_ins(context, &user.name, &new.keep)?;
    let password = Some(new.password.clone());
    put(context, &User { password, ..user })
}

/// Revokes the tokens that a user got by signing in, except those to keep.
fn revoke_sign_ins(context: &Context<'_>, user: &str, keep: &[String]) -> Result<(), Stop> {
    let by_origin = committed_level(context.db)? >= LEVEL_PASSWORD;
    let ends = |scope: &str| match TokenOrigin::of_scope(scope) {
        Some(origin) if by_origin => origin.is_sign_in(),
        _ => !scope.is_empty(),
    };
    let tokens: Vec<String> = context
        .db
        .prepare_cached(select_objects!(
            "kind = ?1 AND json_extract(body, '$.user') = ?2 ORDER BY id"
        ))?
        .query_map([Token::KIND, user], object_body)?
        .collect::<Result<_, _>>()?;
    for body in tokens {
        let mut token: Token = serde_json::from_str(&body)?;
        if token.revoked.is_none() && ends(&token.scope) && !keep.contains(&token.id) {
            token.revoked = Some(context.at);
            put(context, &token)?;
        }
    }
    Ok(())
}

/// Disables the schedules of a removed user.
fn disable_schedules(context: &Context<'_>, owner: &str) -> Result<(), Stop> {
    let schedules: Vec<String> = context
        .db
        .prepare_cached(select_objects!("kind = ?1 ORDER BY id"))?
        .query_map([Schedule::KIND], object_body)?
        .collect::<Result<_, _>>()?;
    for body in schedules {
        let mut schedule: Schedule = serde_json::from_str(&body)?;
        if schedule.owner == owner && !schedule.disabled {
            let text = format!("The user {owner} was removed, so the schedule was disabled.");
            schedule.disabled = true;
            schedule.reason = Some(Reason::new(reason::USER_REMOVED, text));
            put(context, &schedule)?;
        }
    }
    Ok(())
}

/// A token is made once, with at most the role of its user, and revoked once.
pub(super) fn token(context: &Context<'_>, change: &Change<Token>) -> Result<Effect, Stop> {
    match change {
        Change::Create(token) => {
            let user = object_by_id::<User>(context.db, &token.user)?
                .ok_or_else(|| CommandError::not_found(User::KIND, &token.user))?;
            if user.disabled {
                return Err(CommandError::invalid("user", "the user is disabled").into());
            }
            if knows_origin(context.db)? {
                let names = Names::of(&all::<Node>(context.db)?);
                names.check_made_by(&user, &context.actor.name)?;
            }
            if token.role > user.role {
                let what = format!("user {} is {} only", user.name, user.role.name());
                return Err(CommandError::invalid("role", what).into());
            }
            let other: Option<String> = context
                .db
                .prepare_cached("SELECT id FROM objects WHERE kind = ?1 AND lookup = ?2")?
                .query_row(params![Token::KIND, token.hash.expose()], |row| row.get(0))
                .optional()?;
            if let Some(id) = other {
                let kind = Token::KIND.to_owned();
                return Err(CommandError::Conflict { kind, id }.into());
            }
            self::change(
                context,
                &Change::Create(Token {
                    created: context.at,
                    revoked: None,
                    ..token.clone()
                }),
            )
        }
        Change::Put(_) => Err(CommandError::invalid("token", "tokens do not change").into()),
        Change::Remove(id) => {
            let mut token = object_by_id::<Token>(context.db, id)?
                .ok_or_else(|| CommandError::not_found(Token::KIND, id))?;
            token.revoked = token.revoked.or(Some(context.at));
            invites::end_of(context, |invite| invite.tokens.contains(id))?;
            put(context, &token)
        }
    }
}

pub(super) fn put<T: Object>(context: &Context<'_>, object: &T) -> Result<Effect, Stop> {
    object.check()?;
    let id = object.id();
    if object_by_id::<T>(context.db, &id)?.is_none() {
        let count: i64 = context
            .db
            .prepare_cached("SELECT count(*) FROM objects WHERE kind = ?1")?
            .query_row([T::KIND], |row| row.get(0))?;
        if count >= sql(T::COUNT_MAX) {
            return Err(CommandError::TooMany {
                kind: T::KIND.to_owned(),
                max: T::COUNT_MAX,
            }
            .into());
        }
    }
    context
        .db
        .prepare_cached(
            "INSERT INTO objects (kind, id, lookup, body, changed) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (kind, id) DO UPDATE SET lookup = ?3, body = ?4, changed = ?5",
        )?
        .execute(params![
            T::KIND,
            id,
            object.lookup(),
            serde_json::to_string(object)?,
            context.at.0
        ])?;
    tell::<T>(context, &id)
}

fn remove<T: Object>(context: &Context<'_>, id: &str) -> Result<Effect, Stop> {
    let count = context
        .db
        .prepare_cached("DELETE FROM objects WHERE kind = ?1 AND id = ?2")?
        .execute(params![T::KIND, id])?;
    if count == 0 {
        return Err(CommandError::not_found(T::KIND, id).into());
    }
    tell::<T>(context, id)
}

fn tell<T: Object>(context: &Context<'_>, id: &str) -> Result<Effect, Stop> {
    notices::event(context, Topic::Object, &format!("{}/{id}", T::KIND), "{}")?;
    Ok(Effect::Done)
}
