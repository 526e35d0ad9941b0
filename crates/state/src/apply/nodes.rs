//! Owns the effects of joining, changing and losing nodes.
//! Does not change the voters: the leader of the consensus does, after these rows.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::invites::{self, Invites};
use super::objects::{self, Objects};
use super::sites::Sites;
use super::{Context, Stop, claims, history, knows_origin};
use crate::model::{
    Actor, AuditOutcome, Change, CommandError, Effect, Invite, Join, LEVEL_LEFT, LEVEL_MEMBERS,
    LEVEL_NAMED, Names, Node, Object, Op, Timestamp, User, check_node, level_trouble,
    stands_for_account,
};
use crate::read::{committed_level, object_by_id};
use crate::seal::{object_body, select_objects};

/// Adds the node that shows a valid invitation. The same node may repeat the join, and keeps its number, until it has sent a message
/// as a member.
pub(super) fn join(context: &Context<'_>, join: &Join) -> Result<Effect, Stop> {
    let mut invite = match check_join(context.db, join, context.at)? {
        Joining::Again(node) => {
            return Ok(Effect::Joined {
                name: node.name,
                number: node.number,
            });
        }
        Joining::New(invite) => invite,
    };
    // The index of a command is unique, so each number is given once. The first node has 1, which is no command's index.
    let node = Node {
        number: context.index,
        joined: context.at,
        ..join.node.clone()
    };
    let (name, number) = (node.name.clone(), node.number);
    Objects(context).change(&Change::Create(node))?;
    invite.used = Some(join.node.identity.clone());
    Objects(context).change(&Change::Put(invite))?;
    Ok(Effect::Joined { name, number })
}

/// Result of a check of a join.
pub(crate) enum Joining {
    /// The node is a member already.
    Again(Node),
    /// The node becomes a member with this invitation.
    New(Invite),
}

/// Whether a node may join. The state decides by this result. Nodes also check it before they propose, because any client may ask to
/// join.
pub(crate) fn check_join(db: &Connection, join: &Join, at: Timestamp) -> Result<Joining, Stop> {
    let token = |what: String| Err(CommandError::invalid("token", what).into());
    let invite = by_lookup::<Invite>(db, join.hash.expose())?
        .ok_or_else(|| CommandError::not_found(Invite::KIND, "with this secret"))?;
    invites::check_end(&invite, at)?;
    let identity = &join.node.identity;
    if invite.used.as_ref().is_some_and(|used| used != identity) {
        return token("another node has joined with this invitation".to_owned());
    }
    let knows_origin = knows_origin(db)?;
    if let Some(node) = by_lookup::<Node>(db, identity)? {
        // A member that lost its state must not return under the number of that state.
        if knows_origin && !node.addresses.is_empty() {
            let what = format!(
                "this node is already the member {0}; if the node has left, remove it first: godwit cluster remove {0}",
                node.name
            );
            return token(what);
        }
        return Ok(Joining::Again(node));
    }
    if knows_origin && invite.used.is_some() {
        let what = "the node that joined with this invitation was removed";
        return token(what.to_owned());
    }
    join.node.check()?;
    if knows_origin {
        check_node(&join.node.name)?;
        let has_more = !join.node.addresses.is_empty() || !join.node.admins.is_empty();
        if has_more || join.node.draining || join.node.voter {
            let what = "a joining node may send only its name, exports, version and level";
            return Err(CommandError::invalid("node", what).into());
        }
        if object_by_id::<User>(db, &join.node.name)?.is_some() {
            let (kind, id) = (User::KIND.to_owned(), join.node.name.clone());
            return Err(CommandError::Conflict { kind, id }.into());
        }
    }
    if object_by_id::<Node>(db, &join.node.name)?.is_some() {
        let (kind, id) = (Node::KIND.to_owned(), join.node.name.clone());
        return Err(CommandError::Conflict { kind, id }.into());
    }
    if let Some(trouble) = level_trouble(join.node.level, committed_level(db)?) {
        return Err(CommandError::invalid("level", trouble).into());
    }
    invites::check_maker(db, &invite, at)?;
    Ok(Joining::New(invite))
}

/// Changes a node. Its number and identity stay. The jobs of a removed node return to the queue.
pub(super) fn change(context: &Context<'_>, change: &Change<Node>) -> Result<Effect, Stop> {
    match change {
        Change::Create(_) if has_bounds(context.db)? => {
            let what = "a node joins by an invitation";
            Err(CommandError::invalid("node", what).into())
        }
        Change::Create(node) | Change::Put(node) => {
            let earlier = object_by_id::<Node>(context.db, &node.name)?;
            let other = by_lookup::<Node>(context.db, &node.identity)?;
            let same = earlier.as_ref().is_none_or(|earlier| {
                earlier.identity == node.identity && earlier.number == node.number
            });
            let is_other = |other: &Node| other.name != node.name;
            let has_bounds = has_bounds(context.db)?;
            let rows = objects::all::<Node>(context.db)?;
            let mut others = rows.iter().filter(|row| is_other(row));
            let takes_number = has_bounds && others.any(|other| other.number == node.number);
            if !same || takes_number || other.as_ref().is_some_and(is_other) {
                let (kind, id) = (Node::KIND.to_owned(), node.name.clone());
                return Err(CommandError::Conflict { kind, id }.into());
            }
            let effect = match has_bounds {
                true => {
                    let row = bounded(context, node, earlier.as_ref(), &rows)?;
                    Objects(context).change(&Change::Put(row))?
                }
                false => Objects(context).change(change)?,
            };
            end_accounts(context, earlier.as_ref())?;
            Ok(effect)
        }
        Change::Remove(name) => {
            check_left(context.db, context.actor, name)?;
            claims::lost(context, name, false)?;
            if knows_origin(context.db)? {
                Invites(context).burn(name)?;
            }
            let earlier = object_by_id::<Node>(context.db, name)?;
            let effect = Objects(context).change(change)?;
            end_accounts(context, earlier.as_ref())?;
            Ok(effect)
        }
    }
}

/// Refuses the removal of the last row by a user. Two admins may remove the other node of two at the same time, and each may read both rows.
fn check_left(db: &Connection, by: &Actor, name: &str) -> Result<(), Stop> {
    if by.role.is_none() || !has_bounds(db)? {
        return Ok(());
    }
    let rows = objects::all::<Node>(db)?;
    match rows.as_slice() {
        [last] if last.name == name => {
            let what = format!(
                "{name} is the only node; to end the cluster, stop the node and remove its home"
            );
            Err(CommandError::invalid("node", what).into())
        }
        _ => Ok(()),
    }
}

/// Whether the cluster has reached the level from which the rows of nodes have bounds.
fn has_bounds(db: &Connection) -> Result<bool, Stop> {
    Ok(committed_level(db)? >= LEVEL_MEMBERS)
}

/// The row that a change makes. A user changes the two wishes alone, and a report of the leader does not change them: both may have read
/// an older row. So a late report brings no removed node back. Only the row of a cluster's first node is made without a join.
fn bounded(
    context: &Context<'_>,
    node: &Node,
    earlier: Option<&Node>,
    rows: &[Node],
) -> Result<Node, Stop> {
    let Some(row) = earlier else {
        return match rows.is_empty() {
            true => without_users(node, rows, context),
            false => Err(CommandError::not_found(Node::KIND, &node.name).into()),
        };
    };
    let with_wishes = |of: &Node, wishes: &Node| Node {
        draining: wishes.draining,
        voter: wishes.voter,
        ..of.clone()
    };
    match context.actor.role {
        Some(_) => Ok(with_wishes(row, node)),
        None => without_users(&with_wishes(node, row), rows, context),
    }
}

/// The row without accounts that are users already.
fn without_users(node: &Node, rows: &[Node], context: &Context<'_>) -> Result<Node, Stop> {
    let names = Names::of(rows);
    let mut admitted = node.clone();
    admitted.admins.clear();
    for account in &node.admins {
        let user = object_by_id::<User>(context.db, account)?;
        if names.may_report(&node.name, account, user.as_ref()) {
            admitted.admins.push(account.clone());
        }
    }
    Ok(admitted)
}

/// Disables the users for accounts of a machine if no node lists these accounts. Otherwise an ordinary user of this name would be an
/// admin at every machine with an account of the same name. From [`LEVEL_MEMBERS`] on, a row lists no account with an earlier user, and
/// only the account can make its user. So the accounts made these users themselves.
fn end_accounts(context: &Context<'_>, earlier: Option<&Node>) -> Result<(), Stop> {
    let Some(earlier) = earlier else {
        return Ok(());
    };
    if committed_level(context.db)? < LEVEL_LEFT {
        return Ok(());
    }
    let names = Names::of(&objects::all::<Node>(context.db)?);
    for account in &earlier.admins {
        if names.is_account(account) {
            continue;
        }
        let user = object_by_id::<User>(context.db, account)?;
        let Some(user) = user.filter(stands_for_account) else {
            continue;
        };
        let is_audited = has_bounds(context.db)?;
        if is_audited && user.disabled {
            continue;
        }
        let change = Change::Put(User {
            disabled: true,
            ..user
        });
        Objects(context).change(&change)?;
        if is_audited {
            let op = Op::User(change);
            let (action, object) = (op.action(), op.object());
            let done = AuditOutcome::Done;
            history::write(
                context.db,
                context.at,
                context.actor,
                &action,
                &object,
                &done,
            )?;
        }
    }
    Ok(())
}

/// Raises the level of the cluster to one that all of its nodes support. It never decreases.
pub(super) fn raise(context: &Context<'_>, level: u32) -> Result<Effect, Stop> {
    let now = committed_level(context.db)?;
    if level <= now {
        let what = format!("the cluster is at level {now}, and its level cannot decrease");
        return Err(CommandError::invalid("level", what).into());
    }
    if let Some(node) = objects::all::<Node>(context.db)?
        .into_iter()
        .find(|node| node.level < level)
    {
        let what = format!(
            "the node {} knows levels up to {}; update the program of the node, or remove the node",
            node.name, node.level
        );
        return Err(CommandError::invalid("level", what).into());
    }
    context
        .db
        .prepare_cached(
            "INSERT INTO cluster (one, level) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET level = ?1",
        )?
        .execute([level])?;
    if now < LEVEL_NAMED && level >= LEVEL_NAMED {
        Sites(context).begin_belief()?;
    }
    Ok(Effect::Done)
}

/// Returns the jobs of a lost node to the queue.
pub(super) fn lost(context: &Context<'_>, name: &str) -> Result<Effect, Stop> {
    let node = object_by_id::<Node>(context.db, name)?
        .ok_or_else(|| CommandError::not_found(Node::KIND, name))?;
    claims::lost(context, name, node.draining)
}

pub(super) fn by_lookup<T: Object>(db: &Connection, lookup: &str) -> Result<Option<T>, Stop> {
    let body: Option<String> = db
        .prepare_cached(select_objects!("kind = ?1 AND lookup = ?2 ORDER BY id"))?
        .query_row(params![T::KIND, lookup], object_body)
        .optional()?;
    Ok(body.map(|body| serde_json::from_str(&body)).transpose()?)
}
