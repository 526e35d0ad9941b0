//! Owns feature levels: the level of this program, the levels that commands need, and the range that a cluster accepts.
//! Does not know the nodes: the leader receives their announcements.
//!
//! A cluster has a committed level, which all of its nodes support. The leader raises it once the last node announces a higher one, and it
//! never decreases. Until then, no node proposes a command that an older program could not read, and commands keep their older effect.
//! Otherwise voters with two programs would have different states. A program of level n works with clusters of level n and n − 1.

use super::{Change, Command, Found, JobOp, Looked, Op, Settle, TokenOrigin, WorkOp};

/// The newest feature level that this program supports.
///
/// - 2: the meaning of a job's destination ([`JobOp::Placed`]), nodes of sites ([`Op::Learn`]), parts leased in random order, and no
///   leases to resting nodes ([`LEVEL_REST`]).
/// - 3: the origin of a command ([`LEVEL_ORIGIN`]), password changes by users ([`LEVEL_PASSWORD`]), and access rules at sites.
/// - 4: the site and asker of a job ([`JobOp::Route`]), reachability of sites ([`Op::Sighted`]), bounds of access for jobs, and no remains
///   of removed users ([`LEVEL_LEFT`]).
/// - 5: nodes of sites are believed for a limited time ([`LEVEL_NAMED`]).
/// - 6: sites of independent nodes ([`LEVEL_INDEPENDENT`]), divided closes ([`LEVEL_CLOSES`]), roles of jobs ([`LEVEL_ROLES`]), a limit of
///   attempts ([`LEVEL_ATTEMPTS`]), attempts before their time ([`LEVEL_TRY_NOW`]), and makers of invitations and tokens
///   ([`LEVEL_INVITES`]). Learned nodes have lines in the audit log ([`LEVEL_LEARN_AUDITED`]), and
///   a node reports amounts of lost attempts ([`LEVEL_EARLIER_AMOUNTS`]). A node's row has bounds ([`LEVEL_MEMBERS`]), and each webhook
///   gets its portion of all deliveries ([`LEVEL_DELIVERIES`]). A job may have several destinations ([`LEVEL_DESTINATIONS`]). A change of
///   a user by an admin may leave the password as it is ([`LEVEL_KEPT_PASSWORD`]), and one of a webhook its key ([`LEVEL_KEPT_KEY`]).
///   The claim of a divided job cannot be guessed ([`LEVEL_CLAIMS`]). A token made with a password names it
///   ([`LEVEL_PROVEN`]). Works have bounded finds ([`LEVEL_FEWER_PARTS`]). One command ends several tokens ([`LEVEL_REVOKE`]).
///   A schedule keeps its owner ([`LEVEL_SCHEDULE_OWNERS`]). Merged sources wait for attempts that stop ([`LEVEL_STOPS`]).
///   There are flows ([`LEVEL_FLOWS`]). A job may have its copies sealed ([`LEVEL_SEALED`]),
///   or remove files of its source ([`LEVEL_REMOVALS`]). Nodes report processor time and memory of a divided job ([`LEVEL_USAGE`]),
///   and that data of ended jobs has drained ([`LEVEL_DRAINED`]). Jobs of a family give a node the same items ([`LEVEL_AFFINITY`]).
pub const FEATURE_LEVEL: u32 = 6;

/// From this level on, a command names the node that proposed it, and the state checks what that node may request. A user may not have the
/// name of a node or a machine. The invitations of a removed node end.
pub const LEVEL_ORIGIN: u32 = 3;

/// From this level on, [`WorkOp::Lease`](super::WorkOp::Lease) leases nothing to a node without a pair, and parts are leased in random
/// order.
pub const LEVEL_REST: u32 = 2;

/// From this level on, [`Op::Password`] exists, and a new password keeps tokens whose parent did not come from a sign-in.
pub const LEVEL_PASSWORD: u32 = 3;

/// From this level on, [`JobOp::Route`] exists.
pub const LEVEL_ROUTE: u32 = 4;

/// From this level on, the state counts the access rules for jobs. The limits, the share and unfinished jobs of a removed user are removed
/// too. A new user cannot get a name that has jobs or schedules of an earlier one. A user that stood for an account of a machine is
/// disabled when no node names that account any more. [`Prune`](super::Prune) may name owners.
pub const LEVEL_LEFT: u32 = 4;

/// From this level on, [`JobOp::Moved`] exists, and nodes report the entries that they [found and finished](super::Looked).
pub const LEVEL_MOVED: u32 = 4;

/// From this level on, [`Op::Sighted`] exists.
pub const LEVEL_SIGHTED: u32 = 4;

/// From this level on, the description of a job may name the identities of its sites. Older programs cannot read them.
pub const LEVEL_SITES: u32 = 4;

/// From this level on, [`Learn`](super::Learn) contains whether the node that the operator named is the source. Only that node can report
/// more nodes of a site, and they are believed for a limited time.
pub const LEVEL_NAMED: u32 = 5;

/// From this level on, an operator may name independent nodes of a site, and a route records which of them have a job. Older programs
/// cannot read them.
pub const LEVEL_INDEPENDENT: u32 = 6;

/// From this level on, a close can be divided ([`Found::Close`]), and nodes report files with several names.
pub const LEVEL_CLOSES: u32 = 6;

/// From this level on, a schedule and the description of a job contain the role of their submitter. A description also contains the
/// independent nodes of its sites. Older programs cannot read them.
pub const LEVEL_ROLES: u32 = 6;

/// From this level on, users cannot restart a job that has had too many attempts.
pub const LEVEL_ATTEMPTS: u32 = 6;

/// From this level on, a user can start the next attempt of a job that waits after a failure.
pub const LEVEL_TRY_NOW: u32 = 6;

/// From this level on, an invitation records its time, its user and the tokens of the request, and expires with any of them. The row of
/// an
/// ended invitation stays. A token may name its maker ([`TokenOrigin::By`]). Older programs cannot read them.
pub const LEVEL_INVITES: u32 = 6;

/// From this level on, the audit log has a line when other nodes of a site are believed.
pub const LEVEL_LEARN_AUDITED: u32 = 6;

/// From this level on, the node that runs a job may report amounts of earlier attempts at other nodes.
pub const LEVEL_EARLIER_AMOUNTS: u32 = 6;

/// From this level on, a node proposes for a user only what its API offers, and a join only with the secret of the invitation. A change of
/// a node by a user sets its two wishes alone. A row is made by a join, and no two nodes have one number. No user removes the last row.
pub const LEVEL_MEMBERS: u32 = 6;

/// From this level on, many deliveries to one webhook delete none to another, and those to a removed webhook end.
pub const LEVEL_DELIVERIES: u32 = 6;

/// From this level on, a job may have several destinations ([`Op::SubmitFamily`]), also that of a schedule.
pub const LEVEL_DESTINATIONS: u32 = 6;

/// From this level on, [`Op::Flow`] and [`Op::FlowRun`] exist.
pub const LEVEL_FLOWS: u32 = 6;

/// From this level on, a user that is put without a password keeps the password of its row. So a change of the role does not bring back a
/// password that the user has replaced meanwhile.
pub const LEVEL_KEPT_PASSWORD: u32 = 6;

/// From this level on, a webhook that is put with an empty key keeps the key of its row. So a change of its address does not bring back a
/// key that another admin has replaced meanwhile.
pub const LEVEL_KEPT_KEY: u32 = 6;

/// From this level on, the first divided attempt of a job draws the claim at random. Older programs derive it from the job.
pub const LEVEL_CLAIMS: u32 = 6;

/// From this level on, [`Op::ProvenToken`] exists: a sign-in is refused if the password has changed since a node checked it.
pub const LEVEL_PROVEN: u32 = 6;

/// From this level on, [`Op::Revoke`] exists: the state selects the tokens of a user that end together.
pub const LEVEL_REVOKE: u32 = 6;

/// From this level on, a schedule keeps its owner, and only the owner and admins change it, whatever a node has read before.
pub const LEVEL_SCHEDULE_OWNERS: u32 = 6;

/// From this level on, the finds of one command add a bounded number of items, and a file has fewer parts the more items are open.
pub const LEVEL_FEWER_PARTS: u32 = 6;

/// From this level on, a job whose destination an attempt of another child may still write to is claimed later, or by the node of that
/// attempt.
pub const LEVEL_STOPS: u32 = 6;

/// From this level on, a job may have its copies sealed with ASC MHL histories. Older programs refuse its settings.
pub const LEVEL_SEALED: u32 = 6;

/// From this level on, a job may remove the files of its source that have enough proven copies. Older programs cannot read such a job.
pub const LEVEL_REMOVALS: u32 = 6;

/// From this level on, nodes report the processor time and memory of the transfers of a divided job ([`Usage`](super::Usage)).
pub const LEVEL_USAGE: u32 = 6;

/// From this level on, [`JobOp::Drained`] exists.
pub const LEVEL_DRAINED: u32 = 6;

/// From this level on, a node leases for each job of a family the same items first.
pub const LEVEL_AFFINITY: u32 = 6;

/// The level of a cluster that never raised it.
pub const LEVEL_FIRST: u32 = 1;

/// The reason why a program of level `known` does not work in a cluster of level `committed`; `None` if it works.
#[must_use]
pub fn level_trouble(known: u32, committed: u32) -> Option<String> {
    if known < committed {
        return Some(format!(
            "the cluster uses features of level {committed}, and the node's program knows levels up to {known}: update the program of the node"
        ));
    }
    (known > committed.saturating_add(1)).then(|| {
        format!(
            "the cluster is at level {committed}, and the node's program of level {known} works with levels {} and {known} only: update all nodes to a version between the two first",
            known - 1
        )
    })
}

impl Op {
    /// The lowest level of a cluster that uses the command.
    #[must_use]
    pub fn level(&self) -> u32 {
        match self {
            Self::Site(Change::Create(site) | Change::Put(site))
                if site.independent().next().is_some() =>
            {
                LEVEL_INDEPENDENT
            }
            Self::Learn(learn) if learn.named => LEVEL_NAMED,
            Self::Job(_, JobOp::Placed { .. }) | Self::Learn(_) => 2,
            Self::Job(_, JobOp::Route { at, .. }) if !at.is_empty() => LEVEL_INDEPENDENT,
            Self::Job(_, JobOp::Route { .. }) => LEVEL_ROUTE,
            Self::Job(_, JobOp::Moved { .. }) => LEVEL_MOVED,
            Self::Job(_, JobOp::Drained) => LEVEL_DRAINED,
            Self::Work(_, WorkOp::Found { finds, .. })
                if matches!(finds.as_slice(), [Found::Close { .. }, ..]) =>
            {
                LEVEL_CLOSES
            }
            Self::Work(_, WorkOp::Settle(settle)) => settle_level(settle),
            Self::Node(Change::Create(node) | Change::Put(node)) if !node.admins.is_empty() => {
                LEVEL_ORIGIN
            }
            Self::Schedule(Change::Create(new) | Change::Put(new)) if new.role.is_some() => {
                LEVEL_ROLES
            }
            Self::Invite(Change::Create(new) | Change::Put(new))
                if new.by.is_some()
                    || !new.tokens.is_empty()
                    || new.created.is_some()
                    || new.ended.is_some() =>
            {
                LEVEL_INVITES
            }
            Self::Token(Change::Create(new) | Change::Put(new))
                if matches!(
                    TokenOrigin::of_scope(&new.scope),
                    Some(TokenOrigin::By { .. })
                ) =>
            {
                LEVEL_INVITES
            }
            Self::ProvenToken(_) => LEVEL_PROVEN,
            Self::Revoke(_) => LEVEL_REVOKE,
            Self::Join(join) if join.secret.is_some() => LEVEL_MEMBERS,
            Self::SubmitFamily(_) => LEVEL_DESTINATIONS,
            Self::Fired { children, .. } if !children.is_empty() => LEVEL_DESTINATIONS,
            Self::Flow(_) | Self::FlowRun(_) => LEVEL_FLOWS,
            Self::Password(_) => LEVEL_PASSWORD,
            Self::Sighted(_) => LEVEL_SIGHTED,
            Self::Prune(prune) if !prune.of_owners.is_empty() => LEVEL_LEFT,
            Self::Access(Change::Create(rule) | Change::Put(rule)) if rule.site.is_some() => 3,
            _ => LEVEL_FIRST,
        }
    }
}

fn settle_level(settle: &Settle) -> u32 {
    match settle.looked {
        Some(Looked { names: 1.., .. }) => LEVEL_CLOSES,
        Some(looked) if !looked.usage.is_none() => LEVEL_USAGE,
        Some(_) => LEVEL_MOVED,
        None => LEVEL_FIRST,
    }
}

impl Command {
    /// The lowest level of a cluster that uses the command.
    #[must_use]
    pub fn level(&self) -> u32 {
        let level = self.op.level();
        match self.actor.via {
            Some(_) if level < LEVEL_ORIGIN => LEVEL_ORIGIN,
            _ => level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_work_together_and_no_others() {
        assert_eq!(level_trouble(4, 4), None);
        assert_eq!(level_trouble(5, 4), None);
        let older = level_trouble(3, 4).expect("older");
        assert!(older.contains("update the program"), "{older}");
        let newer = level_trouble(6, 4).expect("newer");
        assert!(newer.contains("between"), "{newer}");
    }
}
