//! The work of the leader each second: it updates the rows of nodes from their announcements, the level, the members of the consensus and
//! its voters. Does not announce this node: `keeper` does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use godwit_api::ask::Announce;
use godwit_api::observation::odd_ones;
use godwit_state::{
    Agreed, Change, CommandError, Member, Members, Names, Node, Op, ProposeError, User,
};

use crate::carrier::address_of;
use crate::live::GONE_AFTER;
use crate::observations::Compared;
use crate::voters::{self, Candidate};
use crate::{NUMBER_ALONE, Shared, known, words};

/// A node may vote if it lacks fewer commands than this number.
const BEHIND_MAX: u64 = 1_000;

/// The leader, with the rows of all nodes as it read them this second.
pub(crate) struct Leader<'a> {
    shared: &'a Shared,
    rows: Vec<Node>,
}

impl<'a> Leader<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Result<Self, String> {
        let rows = shared.config.replica.reader().objects().map_err(words)?;
        Ok(Self { shared, rows })
    }

    /// Work that the leader does each second. It makes one change of the consensus at a time, so that each builds on the last.
    pub(crate) fn lead(&self) -> Result<(), String> {
        let (shared, rows) = (self.shared, &self.rows);
        let number = shared.config.home.number;
        let own = rows.iter().find(|row| row.number == number);
        // A node that has always been alone needs no row.
        if own.is_none() && rows.is_empty() && number == NUMBER_ALONE {
            return self.raise(shared.config.level);
        }
        let known = rows.iter().map(|row| row.level).min();
        self.raise(known.unwrap_or_default())?;
        let knows_origin = shared.knows_origin();
        let now = Instant::now();
        let odd = self.odd_exports(now);
        let names = Names::of(rows);
        for row in rows {
            let own = (row.number == number).then(|| shared.own_row(Some(row)));
            let live = shared.live.lock();
            let wanted = live
                .of(row.number)
                .map(|entry| as_said(row, &entry.said, knows_origin));
            drop(live);
            let wanted = own.or(wanted).map(|mut wanted| {
                let is_odd = |export: &String| odd.contains(&(row.number, export.clone()));
                wanted.exports.retain(|export| !is_odd(export));
                self.admit_accounts(&names, &mut wanted).map(|()| wanted)
            });
            let wanted = wanted.transpose()?;
            if let Some(wanted) = wanted.filter(|wanted| wanted != row) {
                match shared.propose(Op::Node(Change::Put(wanted))) {
                    // The node was removed meanwhile.
                    Ok(()) | Err(ProposeError::Refused(CommandError::NotFound { .. })) => {}
                    Err(error) => return Err(words(error)),
                }
            }
            if row.number != number && shared.live.lock().report_lost(row.number, now) {
                (shared.config.log)(&format!(
                    "cluster: the node {} is silent; its jobs move to other nodes",
                    row.name
                ));
                let done = shared.propose(Op::Lost(row.name.clone()));
                done.map_err(|error| {
                    shared.live.lock().report_again(row.number);
                    words(error)
                })?;
            }
        }
        shared
            .live
            .lock()
            .keep(|number| rows.iter().any(|row| row.number == number));
        self.make_members(now)
    }

    /// Removes the accounts from a row that users or other nodes have the names of: a node cannot lock a user out, or take its role.
    fn admit_accounts(&self, names: &Names, row: &mut Node) -> Result<(), String> {
        let reader = self.shared.config.replica.reader();
        let mut ignored = Vec::new();
        for account in std::mem::take(&mut row.admins) {
            let user: Option<User> = reader.object(&account).map_err(words)?;
            let kept = match names.may_report(&row.name, &account, user.as_ref()) {
                true => &mut row.admins,
                false => &mut ignored,
            };
            kept.push(account);
        }
        if self.shared.live.lock().ignore(row.number, &ignored) {
            (self.shared.config.log)(&format!(
                "cluster: the node {} reports accounts of its machine as admins whose names belong to users or nodes: {}; these accounts are ignored. Remove the users, or run the node under a different account",
                row.name,
                ignored.join(", ")
            ));
        }
        Ok(())
    }

    /// The exports whose file system differs from that of most nodes: their nodes accept no jobs for them.
    fn odd_exports(&self, now: Instant) -> Vec<(u64, String)> {
        let (shared, rows) = (self.shared, &self.rows);
        let own = shared.config.home.number;
        let mut observations: BTreeMap<String, Vec<(u64, Vec<u64>)>> = BTreeMap::new();
        let live = shared.live.lock();
        for row in rows {
            let seen = match row.number == own {
                true => shared.observations.seen(),
                false => match live.of(row.number) {
                    Some(entry) if !live.is_lost(row.number, now) => {
                        entry.said.observations.clone()
                    }
                    _ => continue,
                },
            };
            for (export, numbers) in seen {
                observations
                    .entry(export)
                    .or_default()
                    .push((row.number, numbers));
            }
        }
        drop(live);
        let (mut odd, mut compared) = (Vec::new(), Vec::new());
        for (export, seen) in observations {
            for (number, numbers) in &seen {
                let row = rows.iter().find(|row| row.number == *number);
                compared.push(Compared {
                    export: (*number, export.clone()),
                    directory: numbers.first().copied().unwrap_or(0),
                    is_listed: row.is_some_and(|row| row.exports.contains(&export)),
                });
            }
            let all: Vec<&[u64]> = seen.iter().map(|(_, numbers)| numbers.as_slice()).collect();
            let ones = odd_ones(&all).into_iter();
            odd.extend(ones.map(|at| (seen[at].0, export.clone())));
        }
        let odd = shared.observations.lasting(odd, &compared, now);
        for (number, export) in shared.observations.new_ones(&odd, now) {
            let row = rows.iter().find(|row| row.number == number);
            let name = row.map_or("", |row| row.name.as_str());
            (shared.config.log)(&format!(
                "cluster: the export {export} of the node {name} is a different file system than at most nodes, or is not mounted there; the node takes no jobs of this export until the file system is mounted as at the other nodes"
            ));
        }
        odd
    }

    /// Raises the level of the cluster to the level that all of its nodes know.
    fn raise(&self, known: u32) -> Result<(), String> {
        if known
            <= Agreed(&self.shared.config.replica.reader())
                .level()
                .map_err(words)?
        {
            return Ok(());
        }
        self.shared.propose(Op::Level(known)).map_err(words)?;
        (self.shared.config.log)(&format!(
            "cluster: all nodes know level {known}; the cluster uses it from now on"
        ));
        Ok(())
    }

    /// Makes the members of the consensus equal to the nodes in the rows.
    fn make_members(&self, now: Instant) -> Result<(), String> {
        let (shared, rows) = (self.shared, &self.rows);
        let members = Members(&shared.config.replica);
        let present = members.all();
        for row in rows {
            let address = address_of(&known(row));
            let is_same = |member: &Member| member.address == address;
            if !row.addresses.is_empty() && !present.get(&row.number).is_some_and(is_same) {
                return members.put(row.number, &address);
            }
        }
        let last = shared.config.replica.applied_index();
        let candidates: Vec<Candidate> = rows
            .iter()
            .filter_map(|row| Some((row, present.get(&row.number)?)))
            .map(|(row, member)| {
                let own = row.number == shared.config.home.number;
                let live = shared.live.lock();
                let silent = live.silent_for(row.number, now);
                let has_contact =
                    own || (live.of(row.number).is_some() && !live.is_lost(row.number, now));
                let has_state = own || member.matched.is_some_and(|at| at + BEHIND_MAX >= last);
                Candidate {
                    number: row.number,
                    votes: member.votes,
                    wanted: row.voter,
                    fit: has_contact && has_state,
                    gone: !own && silent.is_some_and(|silent| silent > GONE_AFTER),
                }
            })
            .collect();
        let voters: BTreeSet<u64> = present
            .iter()
            .filter(|(_, member)| member.votes)
            .map(|(number, _)| *number)
            .collect();
        let chosen = voters::choose(&candidates);
        if !chosen.is_empty() && chosen != voters {
            return members.vote(chosen);
        }
        let is_row = |number: &u64| rows.iter().any(|row| row.number == *number);
        if let Some(gone) = present.keys().find(|number| !is_row(number))
            && !rows.is_empty()
        {
            return members.remove(*gone);
        }
        Ok(())
    }
}

/// The row of a node, updated from its announcement.
pub(crate) fn as_said(row: &Node, said: &Announce, knows_origin: bool) -> Node {
    Node {
        // A node that has no address now is still known by its earlier ones.
        addresses: match said.node.addresses.is_empty() {
            true => row.addresses.clone(),
            false => said.node.addresses.clone(),
        },
        exports: said.exports.clone(),
        version: said.version.clone(),
        level: said.level,
        admins: match knows_origin {
            true => said.admins.clone(),
            false => Vec::new(),
        },
        ..row.clone()
    }
}
