//! Owns what joining, changing and losing nodes does.
//! Does not change who votes: the leader of the consensus does, after these rows.

use rusqlite::{OptionalExtension as _, params};

use super::{Context, Stop, claims, objects};
use crate::model::{Change, CommandError, Effect, Invite, Join, Node, Object, level_trouble};
use crate::read::{committed_level, object_by_id};

/// Adds the node that shows a good invitation. The same node may come again: it then gets the number that it has.
pub(super) fn join(context: &Context<'_>, join: &Join) -> Result<Effect, Stop> {
    let mut invite = by_lookup::<Invite>(context, join.hash.expose())?
        .ok_or_else(|| CommandError::not_found(Invite::KIND, "with this secret"))?;
    if invite.expires <= context.at {
        let what = format!("the invitation ended at {}", invite.expires);
        return Err(CommandError::invalid("token", what).into());
    }
    let identity = &join.node.identity;
    if invite.used.as_ref().is_some_and(|used| used != identity) {
        let what = "another node joined by this invitation; ask for a new one";
        return Err(CommandError::invalid("token", what).into());
    }
    if let Some(node) = by_lookup::<Node>(context, identity)? {
        return Ok(Effect::Joined {
            name: node.name,
            number: node.number,
        });
    }
    if object_by_id::<Node>(context.db, &join.node.name)?.is_some() {
        let (kind, id) = (Node::KIND.to_owned(), join.node.name.clone());
        return Err(CommandError::Conflict { kind, id }.into());
    }
    if let Some(trouble) = level_trouble(join.node.level, committed_level(context.db)?) {
        return Err(CommandError::invalid("level", trouble).into());
    }
    // No command has the index of another one, so no number is given twice; the first node has 1, which is no command's.
    let node = Node {
        number: context.index,
        joined: context.at,
        ..join.node.clone()
    };
    let (name, number) = (node.name.clone(), node.number);
    objects::change(context, &Change::Create(node))?;
    invite.used = Some(identity.clone());
    objects::change(context, &Change::Put(invite))?;
    Ok(Effect::Joined { name, number })
}

/// Changes a node. Its number and identity stay. What a removed node ran returns to the queue.
pub(super) fn change(context: &Context<'_>, change: &Change<Node>) -> Result<Effect, Stop> {
    match change {
        Change::Create(node) | Change::Put(node) => {
            let earlier = object_by_id::<Node>(context.db, &node.name)?;
            let other = by_lookup::<Node>(context, &node.identity)?;
            let same = earlier.as_ref().is_none_or(|earlier| {
                earlier.identity == node.identity && earlier.number == node.number
            });
            if !same || other.is_some_and(|other| other.name != node.name) {
                let (kind, id) = (Node::KIND.to_owned(), node.name.clone());
                return Err(CommandError::Conflict { kind, id }.into());
            }
            objects::change(context, change)
        }
        Change::Remove(name) => {
            claims::lost(context, name, false)?;
            objects::change(context, change)
        }
    }
}

/// Raises the level of the cluster to one that all of its nodes know. It never falls.
pub(super) fn raise(context: &Context<'_>, level: u32) -> Result<Effect, Stop> {
    let now = committed_level(context.db)?;
    if level <= now {
        let what = format!("the cluster is at level {now}, and a level never falls");
        return Err(CommandError::invalid("level", what).into());
    }
    if let Some(node) = objects::all::<Node>(context)?
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
    Ok(Effect::Done)
}

/// Returns the jobs of a node that is not heard of any more.
pub(super) fn lost(context: &Context<'_>, name: &str) -> Result<Effect, Stop> {
    let node = object_by_id::<Node>(context.db, name)?
        .ok_or_else(|| CommandError::not_found(Node::KIND, name))?;
    claims::lost(context, name, node.draining)
}

fn by_lookup<T: Object>(context: &Context<'_>, lookup: &str) -> Result<Option<T>, Stop> {
    let body: Option<String> = context
        .db
        .prepare_cached("SELECT body FROM objects WHERE kind = ?1 AND lookup = ?2 ORDER BY id")?
        .query_row(params![T::KIND, lookup], |row| row.get(0))
        .optional()?;
    Ok(body.map(|body| serde_json::from_str(&body)).transpose()?)
}
