//! Simulates the leases of sources: their tries at nodes of the destination, and their ends.
//! Decides nothing that the program does not.

use std::collections::BTreeMap;

use godwit_api::failure::FailureCode;

use super::{FAILS, Fault, Lease, MOVES_WITHIN, Side, Source, World, after, float, name, whole};
use crate::lease_transfer::{Faults, Patience, severity};
use crate::pace::Left;
use crate::watch::Traffic;

impl World {
    /// Ends a try as a worker does, and begins the next try.
    pub(super) fn steer(&self, lease: &mut Lease, now: f64, own: &[usize], named: &[usize]) {
        let lasts = now - lease.try_began;
        if let Some(target) = lease.target {
            let has_others = named.iter().any(|one| *one != target);
            let is_named = named.contains(&target);
            let files = whole(lease.try_bytes / self.kind.bytes) * self.kind.files;
            let is_slow = lease
                .patience
                .is_over(after(lasts), whole(lease.try_bytes), files);
            let is_whole = |one: &usize| lease.faults.of(&name(*one)) == 0;
            let is_moved = lease.may_move
                && lasts < MOVES_WITHIN
                && !own.contains(&target)
                && own.iter().any(is_whole);
            let fault = self.fault_of(Side::Target(target), now);
            let is_gone = fault.is_some_and(|(lasts, fault)| fault == Fault::Kill && lasts > 4.0);
            let is_full = fault.is_some_and(|(_, fault)| fault == Fault::Full) && lasts >= FAILS;
            if is_full {
                lease.faults.add(&name(target), FailureCode::NoSpace);
            }
            let worst = severity(FailureCode::NoSpace);
            let is_gone = is_gone
                || (is_full && named.iter().any(|one| lease.faults.of(&name(*one)) < worst));
            let is_left = has_others && (!is_named || is_slow || is_moved);
            if !is_left && !is_gone {
                return;
            }
            if is_gone || is_slow {
                *lease.tries.entry(target).or_default() += 1;
            }
            lease.times_left += u32::from(is_left);
            lease.slow += u32::from(is_left && is_slow);
            lease.may_move &= !is_left;
            lease.target = None;
            let all = float(lease.items) * self.kind.bytes;
            lease.left = match self.kind.are_parts {
                true => all,
                false => (lease.left / self.kind.bytes).ceil() * self.kind.bytes,
            };
        }
        let mut places = own.to_vec();
        places.extend(named.iter().filter(|one| !own.contains(one)));
        let tries = |place: &usize| lease.tries.get(place).copied().unwrap_or(0);
        let order = |place: &usize| (lease.faults.of(&name(*place)), tries(place));
        lease.target = places.iter().copied().min_by_key(order);
        (lease.try_began, lease.try_bytes) = (now, 0.0);
        lease.patience = Patience::new(lease.times_left, 0);
    }

    /// Idle sources lease.
    pub(super) fn lease(
        &self,
        sources: &mut [Source],
        crew: &[usize],
        pairs: &[Vec<usize>],
        (now, settled): (f64, u64),
        (ready, turn): (&mut u64, &mut usize),
    ) {
        let sending = crew.iter().filter(|at| !pairs[**at].is_empty()).count() as u64;
        for at in crew.iter().copied() {
            let is_stopped = self.stands(Side::Source(at), now) && !self.reads_nothing(at, now);
            let is_stopped =
                is_stopped || now < sources[at].rests_until || sources[at].has_declined;
            if sources[at].lease.is_some() || pairs[at].is_empty() || *ready == 0 || is_stopped {
                continue;
            }
            let held = sources.iter().filter_map(|one| one.lease.as_ref());
            let parts = if self.kind.are_parts { *ready } else { 0 };
            let left = Left {
                ready: *ready,
                held: held.map(|lease| lease.items).sum(),
                others: sending.saturating_sub(1),
                parts,
                part_bytes: whole(float(parts) * self.kind.bytes),
            };
            let Some(take) = sources[at].pace.next(after(now), left) else {
                continue;
            };
            let items = match self.kind.are_parts {
                true => (take.part_bytes / whole(self.kind.bytes)).max(1),
                false => take.scans.into(),
            };
            let items = items.min(ready.div_ceil(sending.max(1)));
            *ready -= items;
            *turn += 1;
            let target = pairs[at][*turn % pairs[at].len()];
            sources[at].lease = Some(Lease {
                items,
                began: now,
                left: float(items) * self.kind.bytes,
                target: Some(target),
                try_began: now,
                try_bytes: 0.0,
                patience: Patience::new(0, 0),
                tries: BTreeMap::new(),
                faults: Faults::default(),
                times_left: 0,
                slow: 0,
                settled,
                may_move: true,
            });
        }
    }

    pub(super) fn traffic(&self, sources: &[Source], flows: &[f64], now: f64) -> Vec<Traffic> {
        let tells = |at: &usize| !self.stands(Side::Source(*at), now);
        let all = (0..sources.len()).filter(tells);
        all.map(|at| {
            let lease = sources[at].lease.as_ref();
            let target = lease.and_then(|lease| lease.target);
            Traffic {
                node: format!("s{at}"),
                to: target.map(name).unwrap_or_default(),
                bytes_per_second: flows[at],
                streams: if target.is_some() { 4 } else { 0 },
                faults: sources[at].at_fault.all(),
                ..Traffic::default()
            }
        })
        .collect()
    }
}
