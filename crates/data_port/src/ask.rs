//! Serves a connection on which another node asks questions about places, one after another. Reads no files (`here`), and dials no node
//! (`asker`).

pub(crate) mod asker;
mod change;
pub(crate) mod claim;
mod clean;
mod extent;
mod held;
pub(crate) mod here;
mod list;
mod overlaps;
mod seal;
mod user_files;

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, ClusterQuestion, Question, Refusal, SMALL_BYTES, code};
use godwit_api::grant::Right;
use godwit_api::job::{ClaimId, Text};
use godwit_api::record::StrangerAction;
use godwit_api::rest::Timestamp;
use godwit_engine::session::{receive_frame, send_error};
use godwit_net::{IdentityId, Stream};
use godwit_proto::{Ask, DOCUMENT_BYTES_MAX, ErrorCode, Frame, Reply};

use crate::Shared;
use crate::allow::{Denial, Who, find};
use crate::begin::HolderRights;
use crate::claims::{By, Spot};
use crate::gate::{Full, Slot};

/// Limit of questions on one connection: enough to follow a job for a day with one question per second.
const QUESTIONS_MAX: usize = 100_000;

/// How long a connection may be idle between two questions.
const REST_MAX: Duration = Duration::from_secs(120);

/// How long to wait for the end of fenced transfers, and how often to check.
const FENCED_WITHIN: Duration = Duration::from_secs(5);
const FENCED_LOOK: Duration = Duration::from_millis(20);

/// Longest request of a stranger: a request to join, with as many exports with long names as a node may have.
pub(crate) const STRANGER_BYTES_MAX: u32 = 64 << 10;

/// Interval of the messages that show the asker that the work continues.
pub(crate) const SIGN_EVERY: Duration = Duration::from_secs(1);

/// Serves a connection with questions until it ends.
pub(crate) fn serve(shared: &Arc<Shared>, stream: &mut dyn Stream, peer: IdentityId, first: Ask) {
    let mut ask = first;
    for _ in 0..QUESTIONS_MAX {
        // A node that has just joined is now a member.
        let answered = match let_in(shared, peer) {
            Ok(known) => {
                let asked = read(shared, peer, known, &ask.document);
                reply(shared, stream, peer, ask.number, asked)
            }
            Err(no) => reply_to_stranger(shared, stream, peer, &ask, &no),
        };
        if answered.is_none() {
            return;
        }
        ask = match receive_frame(stream, REST_MAX) {
            Ok(Frame::Ask(next)) => next,
            _ => return,
        };
    }
    let message = "too many questions on one connection; open a new connection";
    send_error(stream, ErrorCode::LIMIT, message, true);
}

/// A question that may be answered.
struct AdmittedQuestion {
    who: Who,
    question: Question,
    /// The place of a long document among the questions.
    place: Option<Slot<IdentityId>>,
}

/// Reads a question. A long document takes memory while it is read, so it first takes a place. A member may send what the consensus needs.
fn read(
    shared: &Shared,
    peer: IdentityId,
    known: Known,
    document: &[u8],
) -> Result<AdmittedQuestion, Refusal> {
    let is_long = document.len() > SMALL_BYTES;
    let (place, question) = match known {
        Known::Member => (None, Question::parse_of_member(document)?),
        Known::Granted => (
            is_long.then(|| place_of(shared, peer)).transpose()?,
            Question::parse(document)?,
        ),
    };
    let mandate = Question::mandate_of(document)?;
    Ok(AdmittedQuestion {
        who: Who { peer, mandate },
        question,
        place,
    })
}

/// A place among the questions being answered.
fn place_of(shared: &Shared, peer: IdentityId) -> Result<Slot<IdentityId>, Refusal> {
    let place = shared.gate.question(&shared.places.counted_as(peer));
    place.map_err(too_many)
}

/// Answers the question of a peer without a grant. Such a peer may only ask to join. Returns `None` to end the connection, so that a
/// stranger keeps none.
fn reply_to_stranger(
    shared: &Shared,
    stream: &mut dyn Stream,
    peer: IdentityId,
    ask: &Ask,
    no: &Denial,
) -> Option<()> {
    let address = stream.peer();
    // A stream without an address does not belong to a stranger.
    let host = address
        .parse::<SocketAddr>()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
    let question = Question::parse(&ask.document).ok();
    let Some(Question::Cluster(question)) = question else {
        shared.operator.refused(peer, &address, None, no);
        send_error(stream, no.code, &no.message, no.retryable);
        return None;
    };
    let joins = matches!(*question, ClusterQuestion::Join(_));
    let did = if joins {
        StrangerAction::Join
    } else {
        StrangerAction::Ask
    };
    let answer = match joins && !shared.operator.noise.may_join(host, Instant::now()) {
        true => Err(Refusal::later(
            code::BUSY,
            "too many attempts to join from this address; wait some seconds, and check the invitation",
        )),
        false => in_cluster(shared, peer, *question),
    };
    match &answer {
        Ok(_) => shared.operator.noise.joined(host),
        Err(no) => shared.operator.refused_stranger(peer, &address, did, no),
    }
    let joined = answer.is_ok();
    send_answer(stream, ask.number, &answer.unwrap_or_else(Answer::Refused)).filter(|()| joined)
}

/// Whether the peer is a node of this node's cluster.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn is_member(shared: &Shared, peer: IdentityId) -> Result<bool, Refusal> {
    let cluster = shared.config.cluster.as_ref();
    cluster.map_or(Ok(false), |cluster| cluster.is_member(&peer.to_string()))
}

/// A peer that may ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Known {
    /// A node of this node's cluster.
    Member,
    /// Another peer with a grant.
    Granted,
}

/// Admits the nodes of this node's cluster, and peers with a grant. If the state cannot be read, a peer without a grant may be such a
/// node, so the refusal is temporary.
pub(crate) fn let_in(shared: &Shared, peer: IdentityId) -> Result<Known, Denial> {
    let unread = match is_member(shared, peer) {
        Ok(true) => return Ok(Known::Member),
        Ok(false) => None,
        Err(refusal) => Some(refusal),
    };
    let granted = shared.places.may_ask(peer).map(|()| Known::Granted);
    granted.map_err(|no| match unread {
        None => no,
        Some(Refusal { message, .. }) => Denial {
            retryable: true,
            ..Denial::new(ErrorCode::INTERNAL, message).unproven()
        },
    })
}

/// Answers one question. `None` if the connection is useless from now on.
fn reply(
    shared: &Shared,
    stream: &mut dyn Stream,
    peer: IdentityId,
    number: u64,
    asked: Result<AdmittedQuestion, Refusal>,
) -> Option<()> {
    let answer = asked.and_then(|asked| match shared.only {
        Some(_) => {
            let mut signs = Signs::new(shared, stream, number);
            let AdmittedQuestion { who, question, .. } = &asked;
            user_files::answer(shared, who, question, &mut |done| signs.go_on(done))
        }
        None => answer(shared, stream, number, asked),
    });
    let answer = answer.unwrap_or_else(Answer::Refused);
    // A node that searches does not know whether the job or entry exists here.
    let looked_for = [code::NO_SUCH_JOB, code::NOT_LET_IN, code::NOT_FOUND];
    if let Answer::Refused(refusal) = &answer
        && !refusal.code.is_one_of(&looked_for)
    {
        shared
            .operator
            .refused_answer(peer, &stream.peer().to_string(), refusal);
    }
    send_answer(stream, number, &answer)
}

fn send_answer(stream: &mut dyn Stream, number: u64, answer: &Answer) -> Option<()> {
    let mut document = answer.to_document();
    if document.len() > DOCUMENT_BYTES_MAX {
        let refusal = Refusal::new(code::INVALID, "the answer is too long; ask for less");
        document = Answer::Refused(refusal).to_document();
    }
    let reply = Reply {
        number,
        document,
        done: 0,
    };
    send(stream, &reply)
}

fn send(stream: &mut dyn Stream, reply: &Reply) -> Option<()> {
    let mut head = Vec::new();
    reply.encode(&mut head).ok()?;
    stream.send(&head, &[]).ok()
}

fn answer(
    shared: &Shared,
    stream: &mut dyn Stream,
    number: u64,
    asked: AdmittedQuestion,
) -> Result<Answer, Refusal> {
    let AdmittedQuestion {
        who,
        question,
        place,
    } = asked;
    let (peer, who) = (who.peer, &who);
    if who.mandate.is_some() && !question.takes_mandate() {
        let message = "for: this question cannot be asked for a job of another node";
        return Err(Refusal::new(code::INVALID, message));
    }
    if let Question::Cluster(question) = question {
        return in_cluster(shared, peer, *question);
    }
    // Most questions about jobs are quick, and many jobs may be followed at once. These questions dial, look at each path of a job,
    // change each of its rules, or read its log.
    let is_long = matches!(
        question,
        Question::Reach(_)
            | Question::Grant(_)
            | Question::Run(_)
            | Question::Revoke { .. }
            | Question::Past(_)
    );
    // If a claim waited behind long questions of others, it would end before its renewal.
    let is_short = question.is_about_jobs() && !is_long || matches!(question, Question::Renew(_));
    let _place = match place {
        None if !is_short => Some(place_of(shared, peer)?),
        place => place,
    };
    // The nodes of a cluster act for the same users, and the asking node has checked their rights. A node that was removed from the cluster
    // still counts where its removal is not known.
    let is_member = || match who.mandate {
        None if !shared.places.is_outdated() => is_member(shared, peer),
        _ => Ok(false),
    };
    let read = || -> Result<Box<here::May<'_>>, Refusal> {
        if is_member()? {
            return Ok(Box::new(|_, _, _| Ok(())));
        }
        let granted = shared.places.granted(who).map_err(refusal)?;
        Ok(Box::new(move |export, path, right| {
            let may = granted.allowed_at(Timestamp(0), (export, path), right);
            may.map_err(refusal)
        }))
    };
    let held = held::Held::new(&read);
    let may = |export: &str, path: &godwit_store::RelPath, right| held.may(export, path, right);
    let is_member = is_member()?;
    let mut signs = Signs::new(shared, stream, number);
    let mut go_on = |done: u64| held.hold() && signs.go_on(done);
    if question == (Question::Exports {}) {
        let granted = (!is_member).then(|| shared.places.granted(who));
        let granted = granted.transpose().map_err(refusal)?;
        let may = |export: &str, right| {
            let granted = granted.as_ref();
            granted.is_none_or(|granted| granted.somewhere(export, right))
        };
        return Ok(Answer::Exports(shared.here.exports_with_room(&may)));
    }
    if let Question::Nodes { path, of } = &question {
        return nodes(shared, path, of.as_deref(), &may);
    }
    if question == (Question::Running {}) && !is_member {
        let message = "only nodes of the same cluster may ask what this node runs";
        return Err(Refusal::new(code::NOT_GRANTED, message));
    }
    if let Question::Buffer(_) | Question::Extent(_) = &question {
        return extent::about_buffer(shared, (peer, is_member), &question);
    }
    // The figures of the host reveal its other work. So only a node with a transfer here gets them.
    if question == (Question::Host {}) && shared.table.count_of(&peer).0 == 0 {
        let message = "no transfer between this node and the asking one runs now";
        return Err(Refusal::new(code::NO_SUCH_JOB, message));
    }
    if question.is_about_jobs() {
        return about_jobs(shared, who, &question);
    }
    let is_written = |spot: &Spot| shared.table.is_written(spot);
    let rights = HolderRights::new(shared);
    let may_hold = |by: &By, asked: &Text| rights.may_write(by, asked);
    let holder = claim::Holder {
        may_hold: &may_hold,
        by: match is_member {
            true => By::Member(peer),
            false => By::Peer(who.clone()),
        },
    };
    if let Some(answered) = shared.here.claim(&question, &holder, &may, &is_written) {
        match &question {
            Question::Claim(wish) if !wish.fence.is_empty() && answered.is_ok() => {
                let spot = shared.config.claims.spot_of(wish.claim);
                fenced(shared, wish.claim, spot.as_ref())?;
            }
            // So the asker knows what the members leave. The claim has ended in any case.
            Question::Release(wish) if answered.is_ok() => {
                let _ = fenced(shared, wish.claim, None);
            }
            _ => {}
        }
        return answered;
    }
    let counted = matches!(question, Question::Seal(_)).then(|| shared.places.counted_as(peer));
    let asker = counted.and_then(|counted| counted.into_iter().min());
    let answered = shared.here.answer_for(asker, &question, &may, &mut go_on);
    answered.map_err(|refusal| held.ended().unwrap_or(refusal))
}

/// Sends keep-alives during the work on a question.
struct Signs<'a> {
    shared: &'a Shared,
    stream: &'a mut dyn Stream,
    number: u64,
    last: Instant,
}

impl<'a> Signs<'a> {
    fn new(shared: &'a Shared, stream: &'a mut dyn Stream, number: u64) -> Self {
        Self {
            shared,
            stream,
            number,
            last: Instant::now(),
        }
    }

    /// Returns whether the asker still waits. Sends a keep-alive if one is due.
    fn go_on(&mut self, done: u64) -> bool {
        // The asker sends nothing before the reply, so any data means the end of the connection.
        if self.shared.stopping() || !matches!(self.stream.try_recv(), Ok(None)) {
            return false;
        }
        if self.last.elapsed() < SIGN_EVERY {
            return true;
        }
        self.last = Instant::now();
        let sign = Reply {
            number: self.number,
            document: Vec::new(),
            done,
        };
        send(self.stream, &sign).is_some()
    }
}

/// Passes a question within the cluster to the cluster, which checks the asker.
fn in_cluster(
    shared: &Shared,
    peer: IdentityId,
    question: ClusterQuestion,
) -> Result<Answer, Refusal> {
    let Some(cluster) = &shared.config.cluster else {
        let message = "this node belongs to no cluster";
        return Err(Refusal::new(code::UNSUPPORTED, message));
    };
    let answer = cluster.answer(&peer.to_string(), question);
    answer.map(|answer| Answer::Cluster(Box::new(answer)))
}

/// Waits until the transfers of fenced members of the claim, and of other claims at its place, have closed their files.
fn fenced(shared: &Shared, claim: ClaimId, place: Option<&Spot>) -> Result<(), Refusal> {
    let until = Instant::now() + FENCED_WITHIN;
    while shared.table.has_fenced(claim, place) {
        if Instant::now() >= until || shared.stopping() {
            let message = "a cancelled transfer still writes here; the controller asks again";
            return Err(Refusal::later(code::BUSY, message));
        }
        std::thread::sleep(FENCED_LOOK);
    }
    Ok(())
}

/// The nodes of this site that serve a place, for askers with a right there.
fn nodes(
    shared: &Shared,
    path: &Text,
    of: Option<&str>,
    may: &here::May<'_>,
) -> Result<Answer, Refusal> {
    let Some(cluster) = &shared.config.cluster else {
        let message = "this node belongs to no cluster";
        return Err(Refusal::new(code::UNSUPPORTED, message));
    };
    let found = find(&shared.config.exports, &path.0).map_err(refusal)?;
    let (export, below) = found.named();
    may(export, &below, Right::Write).or_else(|_| may(export, &below, Right::Read))?;
    // Another site may falsely list this node as its own, and so direct the asker here.
    if let Some(of) = of
        && !cluster.is_member(of)?
    {
        let message = format!("{of} is not a node of this site");
        return Err(Refusal::new(code::OTHER_CLUSTER, message));
    }
    cluster.nodes(export).map(Answer::Nodes)
}

/// Passes a question about jobs on, with the asker's rights at this node.
fn about_jobs(shared: &Shared, who: &Who, question: &Question) -> Result<Answer, Refusal> {
    let Some(jobs) = &shared.config.jobs else {
        let message = "this node runs no jobs for other nodes";
        return Err(Refusal::new(code::UNSUPPORTED, message));
    };
    // The rights are read once, because a question may concern a thousand paths.
    let granted = OnceCell::new();
    let may = |path: &Text, write: bool, at: Timestamp| {
        let found = find(&shared.config.exports, &path.0).map_err(refusal)?;
        let (export, below) = found.named();
        let right = if write { Right::Write } else { Right::Read };
        let granted = granted.get_or_init(|| shared.places.granted(who).map_err(refusal));
        let granted = granted.as_ref().map_err(Refusal::clone)?;
        let may = granted.allowed_at(at, (export, &below), right);
        may.map_err(refusal)
    };
    jobs.answer(&who.peer.to_string(), who.mandate.as_ref(), question, &may)
}

fn too_many(full: Full) -> Refusal {
    let message = match full {
        Full::Peer => {
            "this identity has reached its limit of questions at this node; try again later"
        }
        Full::All => "this node has reached its limit of questions; try again later",
    };
    Refusal::later(code::BUSY, message)
}

/// Converts a denial to a refusal with a code for programs.
fn refusal(denial: Denial) -> Refusal {
    let code = match denial.code {
        ErrorCode::AUTH => code::UNKNOWN_IDENTITY,
        ErrorCode::NO_EXPORT => code::NO_SUCH_EXPORT,
        ErrorCode::NOT_GRANTED => code::NOT_GRANTED,
        ErrorCode::OUTSIDE => code::OUTSIDE,
        _ => code::IO,
    };
    Refusal {
        code: code.into(),
        message: denial.message,
        retryable: denial.retryable,
    }
}

#[cfg(test)]
mod tests;
