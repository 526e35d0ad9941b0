//! Decides where a waiting destination gets its data if destinations pass the data on. One begins at the source. Meanwhile the others take the
//! files that are whole there, or at each other: they form a tree. A destination with such files then takes the rest from any complete one.
//! Each complete one gives to one other at a time of those without files, so the number of copies doubles.
//! Reads no state, and no clock.

use std::collections::BTreeSet;

/// The part of a destination in the distribution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Stand {
    /// It is complete, and may give its data.
    Has,
    /// It gets its data from the source now.
    Receives,
    /// It gets its data from the destination with this job, by a relay.
    Takes(String),
    /// It gets the files that are whole at the destination with this job, by a round.
    Round(String),
    /// It can begin.
    Waits,
    /// The destination can begin once its site may run another job.
    Held,
    /// It can neither begin nor give: paused, failed, due later, without a connection, or known for wrong data.
    Away,
}

/// A destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct One {
    /// Its job.
    pub(super) job: String,
    pub(super) stand: Stand,
    /// The destination from which it took whole files last; None if it has none.
    pub(super) fed: Option<String>,
}

impl One {
    /// The destination from which it gets its data, or would get more.
    fn giver(&self) -> Option<&str> {
        match &self.stand {
            Stand::Takes(giver) | Stand::Round(giver) => Some(giver),
            Stand::Waits | Stand::Held => self.fed.as_deref(),
            Stand::Has | Stand::Receives | Stand::Away => None,
        }
    }
}

/// The next step of a waiting destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// It begins at the source.
    Source,
    /// It takes the data of this job's destination.
    From(String),
    /// It takes the files that are whole at this job's destination.
    Whole(String),
    /// It waits for this job, whose destination will have the data, or is to begin first.
    After(String),
}

/// The next step of the destination `taker`, which can begin. `all` are in the order in which they begin. The `useless` cannot give to this one,
/// and the `shunned` give it no files before they are complete.
pub(super) fn next(
    all: &[One],
    taker: &str,
    useless: &BTreeSet<String>,
    shunned: &BTreeSet<String>,
) -> Next {
    let is_other = |one: &&One| one.job != taker && !useless.contains(&one.job);
    let find = |is: &dyn Fn(&One) -> bool| all.iter().filter(is_other).find(|one| is(one));
    let gives = |giver: &One| {
        let mut others = all.iter().filter(|one| one.job != taker);
        others.any(|one| matches!(&one.stand, Stand::Takes(from) if *from == giver.job))
    };
    let is_fed = |one: &One| one.job == taker && one.fed.is_some();
    // Such a relay brings little, so it is not to wait for others.
    let giver = match all.iter().any(is_fed) {
        true => {
            let complete = all.iter().filter(is_other);
            let complete = complete.filter(|one| one.stand == Stand::Has);
            complete.min_by_key(|one| readers(all, &one.job, taker))
        }
        false => find(&|one| one.stand == Stand::Has && !gives(one)),
    };
    if let Some(giver) = giver {
        return Next::From(giver.job.clone());
    }
    if let Some(busy) = find(&|one| one.stand == Stand::Has) {
        return Next::After(busy.job.clone());
    }
    let passers = all.iter().filter(is_other);
    let passers = passers.filter(|one| !shunned.contains(&one.job));
    let passers = passers.filter_map(|one| {
        let hops = hops(all, &one.job, taker)?;
        Some((hops + readers(all, &one.job, taker), one))
    });
    if let Some((_, passer)) = passers.min_by_key(|(cost, _)| *cost) {
        return Next::Whole(passer.job.clone());
    }
    let soon = find(&|one| one.stand == Stand::Receives)
        .or_else(|| find(&|one| matches!(one.stand, Stand::Takes(_) | Stand::Round(_))));
    if let Some(soon) = soon {
        return Next::After(soon.job.clone());
    }
    let is_held = |one: &One| one.job == taker && one.stand == Stand::Held;
    // A relay waits only for earlier relays, so no two wait for each other. A relay that its site cannot run now lets all
    // others go first.
    let before = match all.iter().any(is_held) {
        true => all.len(),
        false => all.iter().position(|one| one.job == taker).unwrap_or(0),
    };
    let mut first = all.iter().take(before).filter(is_other);
    match first.find(|one| one.stand == Stand::Waits) {
        Some(first) => Next::After(first.job.clone()),
        None => Next::Source,
    }
}

/// Other destinations than `taker` that get their data from this one.
fn readers(all: &[One], job: &str, taker: &str) -> usize {
    let others = all.iter().filter(|one| one.job != taker);
    others.filter(|one| one.giver() == Some(job)).count()
}

/// Destinations between one that passes files on and one whose whole copy is on its way. None if it has no files, or if the way leads through
/// `taker` or to one that gets nothing now. Otherwise two could wait for each other.
fn hops(all: &[One], job: &str, taker: &str) -> Option<usize> {
    let mut at = job;
    for hops in 0..all.len() {
        let one = all.iter().find(|one| one.job == at && one.job != taker)?;
        match one.stand {
            Stand::Receives | Stand::Takes(_) => return Some(hops),
            _ if one.fed.is_none() => return None,
            _ => at = one.giver()?,
        }
    }
    None
}

#[cfg(test)]
mod tests;
