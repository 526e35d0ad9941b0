//! Sends a command to the leader, and returns its effect. Does not connect; `Peers` does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{ClientWriteError, RaftError};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answering::LastContacts;
use super::{Done, Ended, Gate, ProposeError, Replica, admission, ended};
use crate::model::{Command, CommandError, Effect, Op};
use crate::raft::{Guard, PROPOSE, Peers, ROOM, Raft, say};
use crate::store::free_bytes;

/// Interval of checks of the leader.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A command to propose.
pub(super) struct Proposal {
    raft: Raft,
    peers: Arc<dyn Peers>,
    permits: Arc<Semaphore>,
    applied: watch::Receiver<u64>,
    guard: Arc<Guard>,
    answering: LastContacts,
    gate: Gate,
    number: u64,
    within: Duration,
    directory: PathBuf,
    free_bytes_min: u64,
    command: Command,
}

/// The leader's answer to a command of another node.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum LeaderReply {
    Done {
        index: u64,
        effect: Effect,
    },
    Refused(CommandError),
    NotLeader,
    Busy,
    Unknown,
    /// The leader accepts no change, for this reason. Nothing was changed.
    Unable(String),
}

/// Result of one try.
enum Tried {
    Ended(Result<Done, ProposeError>),
    /// Nothing was changed, for this reason; try again.
    Again(ProposeError),
}

impl Proposal {
    pub(super) fn of(replica: &Replica, command: Command) -> Self {
        Self {
            raft: replica.raft.clone(),
            peers: Arc::clone(&replica.options.peers),
            permits: Arc::clone(&replica.permits),
            applied: replica.applied.clone(),
            guard: replica.directory.guard(),
            answering: replica.answering.clone(),
            gate: replica.options.gate.clone(),
            number: replica.options.voter,
            within: replica.options.propose_within,
            directory: replica.options.directory.clone(),
            free_bytes_min: replica.options.free_bytes_min,
            command,
        }
    }

    pub(super) async fn run(mut self) -> Result<Done, ProposeError> {
        let until = Instant::now() + self.within;
        let permits = Arc::clone(&self.permits);
        let Ok(Ok(_permit)) = timeout_at(until, permits.acquire()).await else {
            return Err(ProposeError::Busy);
        };
        loop {
            let why = match self.try_here().await {
                Tried::Ended(result) => return result,
                Tried::Again(ProposeError::NotLeader {
                    leader: Some((number, address)),
                }) if number != self.number => {
                    match self.pass_on((number, &address), until).await {
                        Tried::Ended(result) => return result,
                        Tried::Again(why) => why,
                    }
                }
                Tried::Again(why) => why,
            };
            if Instant::now() + LOOK_EVERY >= until {
                return Err(match why {
                    ProposeError::NotLeader { .. } if self.raft.voter_ids().count() > 1 => {
                        no_majority(&self.raft, self.number, &self.answering)
                    }
                    why => why,
                });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn try_here(&self) -> Tried {
        if let Err(closed) = self.gate.check() {
            return Tried::Ended(Err(closed));
        }
        // Another node may become leader meanwhile. Commits of other voters arrive here in any case.
        if self.raft.is_leader()
            && let Err(full) = check_room(&self.directory, self.free_bytes_min)
        {
            return match self.raft.voter_ids().count() {
                0 | 1 => Tried::Ended(Err(full)),
                _ => Tried::Again(full),
            };
        }
        let command = for_log(&self.command);
        let written = timeout(self.within, self.raft.client_write(command)).await;
        Tried::Ended(match written {
            // Other voters that were left behind may have accepted the change.
            Ok(Ok(_)) if !self.gate.is_open() => Err(ProposeError::Unknown),
            Ok(Ok(response)) => {
                let index = response.log_id.index;
                let effect = response.data.map_err(ProposeError::Refused);
                effect.map(|effect| Done { index, effect })
            }
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward)))) => {
                let address = forward.leader_node.map(|node| node.addr);
                let leader = forward.leader_id.zip(address);
                return Tried::Again(ProposeError::NotLeader { leader });
            }
            // Errors of membership and preconditions do not apply to a proposal.
            Ok(Err(RaftError::APIError(_))) | Err(_) => Err(ProposeError::Unknown),
            Ok(Err(RaftError::Fatal(fatal))) => {
                Err(ProposeError::Ended(ended(&self.guard, &fatal)))
            }
        })
    }

    /// Sends the command to the leader, and waits until this node has applied it.
    async fn pass_on(&mut self, to: (u64, &str), until: Instant) -> Tried {
        let within = until.saturating_duration_since(Instant::now());
        let said = say(&*self.peers, to, PROPOSE, &self.command, within);
        let reported = match timeout_at(until, said).await {
            Ok(Ok(reported)) => reported,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotConnected => {
                return Tried::Again(ProposeError::NotLeader { leader: None });
            }
            Ok(Err(_)) | Err(_) => return Tried::Ended(Err(ProposeError::Unknown)),
        };
        Tried::Ended(match reported {
            LeaderReply::Done { index, effect } => {
                // Later reads here must see the change. If this takes long, the command is applied
                // nevertheless.
                let _ = timeout_at(until, self.applied.wait_for(|at| *at >= index)).await;
                Ok(Done { index, effect })
            }
            LeaderReply::Refused(error) => Err(ProposeError::Refused(error)),
            LeaderReply::NotLeader => {
                return Tried::Again(ProposeError::NotLeader { leader: None });
            }
            LeaderReply::Busy => Err(ProposeError::Busy),
            LeaderReply::Unknown => Err(ProposeError::Unknown),
            // The leader transfers the leadership if another voter can lead.
            LeaderReply::Unable(why) => {
                let number = to.0;
                return Tried::Again(ProposeError::Unable { number, why });
            }
        })
    }
}

/// The command as the log keeps it: without the secret of an invitation.
fn for_log(command: &Command) -> Command {
    let mut logged = command.clone();
    if let Op::Join(join) = &mut logged.op {
        join.secret = None;
    }
    logged
}

/// Checks that a directory has free space for changes.
pub(super) fn check_room(directory: &Path, free_bytes_min: u64) -> Result<(), ProposeError> {
    let free = free_bytes(directory)?;
    if free < free_bytes_min {
        return Err(ProposeError::Full {
            directory: directory.to_owned(),
            free,
            needed: free_bytes_min,
        });
    }
    Ok(())
}

/// Reports missing voters, and whether any other voter answers.
pub(super) fn no_majority(raft: &Raft, own: u64, answering: &LastContacts) -> ProposeError {
    let voters: Vec<u64> = raft.voter_ids().collect();
    let others = voters.iter().copied().filter(|voter| *voter != own);
    ProposeError::NoMajority {
        voters: voters.len(),
        answering: answering.among(others),
    }
}

/// Answers a message of another node that is not part of the consensus protocol.
pub(super) async fn answer(
    replica: &Replica,
    from: u64,
    kind: &str,
    message: &[u8],
) -> io::Result<Vec<u8>> {
    if kind == ROOM {
        let can = replica.readiness.can_lead();
        return Ok(serde_json::to_vec(&can)?);
    }
    if kind != PROPOSE {
        let what = format!("messages of the kind {kind:?} are not known; update the older node");
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let mut command: Command = serde_json::from_slice(message)?;
    admission::set_time((replica.options.now)(), &mut command);
    let admission = &replica.admission;
    let checked = (admission.stamp(from, &mut command))
        .and_then(|()| admission.check_follower(from, &command))
        .and_then(|()| admission.check(&command));
    let reported = match checked {
        Ok(()) => {
            let proposal = Proposal::of(replica, command);
            match proposal.try_here().await {
                Tried::Ended(Ok(Done { index, effect })) => LeaderReply::Done { index, effect },
                Tried::Ended(Err(ProposeError::Refused(error))) => LeaderReply::Refused(error),
                Tried::Ended(Err(ProposeError::Busy)) => LeaderReply::Busy,
                Tried::Again(ProposeError::NotLeader { .. }) => LeaderReply::NotLeader,
                Tried::Again(error)
                | Tried::Ended(Err(error @ (ProposeError::Full { .. } | ProposeError::Fault(_)))) => {
                    LeaderReply::Unable(error.words())
                }
                Tried::Ended(Err(_)) => LeaderReply::Unknown,
            }
        }
        Err(ProposeError::Refused(error)) => LeaderReply::Refused(error),
        Err(error @ ProposeError::Fault(_)) => LeaderReply::Unable(error.words()),
        Err(ProposeError::Ended(Ended(what))) => return Err(io::Error::other(what)),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    Ok(serde_json::to_vec(&reported)?)
}
