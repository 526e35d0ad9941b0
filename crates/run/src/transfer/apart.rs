//! Decides whether the ends of a transfer overlap, as far as this machine knows. Does not search for places or
//! files; `itself` does.

use godwit_api::failure::{Failure, FailureCode};
use godwit_proto::Beacon;
use godwit_tree::PreparedDestination;

use super::Job;
use super::ends::{Ends, SenderInput};
use crate::itself::{self, Judged};

impl Job<'_> {
    /// Whether this transfer, or the closer of its claim, deletes entries that only the destination has.
    fn deletes(&self) -> bool {
        let by_closer = self.spec.member.as_ref().is_some_and(|it| it.deletes);
        self.settings.comparison.delete || by_closer
    }
}

impl Ends<'_> {
    /// The reason why these sources must not be copied to the destination with this beacon, if there is one.
    pub(super) fn reason_by_beacon(
        &self,
        beacon: &Beacon,
        (given, names, absolute): (&SenderInput, &[Vec<u8>], &[Vec<u8>]),
        destination: &[u8],
    ) -> Option<String> {
        let look = itself::Look {
            beacon,
            deletes: self.job.deletes(),
            bounded: self.job.chosen.select.keeps_to_one_file_system(),
            is_exported: self.job.env.exports.is_some(),
            destination,
        };
        let trees = given.trees();
        let named = names.iter().zip(absolute).zip(&trees);
        let sought: Vec<itself::Sought<'_>> = named
            .map(|((name, absolute), root)| itself::Sought {
                root,
                real: absolute,
                absolute,
                name,
            })
            .collect();
        let reason = look.reason(&sought)?;
        Some(self.said(reason))
    }

    /// The reason in a message for the user. A job in exports belongs to a user, who must not see paths of this
    /// machine.
    fn said(&self, reason: String) -> String {
        match self.job.env.exports {
            Some(_) => itself::without_paths(&reason).to_owned(),
            None => reason,
        }
    }

    /// Notes that the location of the source is not proven, for a transfer that deletes.
    pub(super) fn say_unproved(&self, destination: &[u8]) {
        if self.job.deletes() {
            self.job.run.events.note(&itself::unproved(destination));
        }
    }

    /// Returns the destination, or refuses if a tree would be copied into itself.
    pub(super) fn refuse_into_itself(
        &self,
        mut prepared: PreparedDestination,
        from: (&SenderInput, &[Vec<u8>], &[Vec<u8>]),
    ) -> Result<PreparedDestination, Failure> {
        let deletes = self.job.deletes();
        let bounded = self.job.chosen.select.keeps_to_one_file_system();
        let exported = self.job.env.exports.is_some();
        let reason = match itself::judge_here(from.2, &prepared.destinations, deletes, bounded) {
            Judged::Meet(reason) => Some(self.said(reason)),
            Judged::Apart => None,
            Judged::ApartHere { alike } => {
                let destination = prepared.mapped.clone();
                match itself::light(&mut prepared, exported) {
                    Some(beacon) => self.reason_by_beacon(&beacon, from, &destination),
                    None if alike.is_some() => alike.map(|reason| self.said(reason)),
                    None => {
                        self.say_unproved(&destination);
                        None
                    }
                }
            }
        };
        let Some(reason) = reason else {
            return Ok(prepared);
        };
        match prepared.put_away() {
            Ok(()) => Err(Failure::new(FailureCode::IntoItself, reason)),
            Err(error) => Err(Failure::new(FailureCode::JournalUnusable, error)),
        }
    }
}
