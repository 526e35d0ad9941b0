//! Jobs that fetch from a cluster and are to be divided: its nodes bring the data here, as they would to any site.
//! Runs none of them.

use std::time::Duration;

use godwit_api::ask::{Answer, Peer, Question, ReachSite, Refusal, code};
use godwit_api::job::JobKind;
use godwit_api::rest::{Divide, HERE};
use godwit_state::Job;

use super::{below_exports, may_run_elsewhere, site};
use crate::{Shared, grants, reached, spec};

/// How long the other site may take to say whether it reaches this node.
const WITHIN: Duration = Duration::from_secs(60);

/// Whether the site of the sources is to bring the job here: the job is to be divided, and that site can connect to this node. In any
/// other case one node here fetches.
pub(crate) fn is_brought(shared: &Shared, job: &Job, note: &dyn Fn(&str)) -> bool {
    let fetches = job.destination.site == HERE && may_run_elsewhere(job);
    if !fetches || crate::guests::asker_of(job).is_some() {
        return false;
    }
    let stored = shared.replica.reader().job_spec(&job.id);
    let Ok(Some(Ok(new))) = stored.map(|stored| stored.map(|text| spec::parse(&text))) else {
        return false;
    };
    // The nodes of the other site get access here, so only the owner of the job decides that.
    if new.divide != Divide::Always || new.kind == JobKind::Verify || new.manifest {
        return false;
    }
    let (Some(own), Some(first)) = ((shared.config.own)(), job.sources.first()) else {
        return false;
    };
    let Ok((from, _)) = site(shared, job, &first.site) else {
        return false;
    };
    let ask = |question: &Question| reached::ask(shared, &from, question, WITHIN, &|| true);
    let id = job.id.clone();
    // What runs there already goes on there; so does what may, while the site does not say.
    if job.attempts > 0
        && !ask(&Question::Job { job: id }).is_err_and(|refusal| refusal.code == code::NO_SUCH_JOB)
    {
        return true;
    }
    let Ok((sources, _)) = spec::places(&new) else {
        return false;
    };
    let reached = ask(&Question::Reach(ReachSite {
        peer: own,
        paths: below_exports(&sources),
        write: false,
    }));
    if let Err(refusal) = &reached {
        note(&format!(
            "one node here fetches, for the other site cannot bring: {refusal}"
        ));
    }
    reached.is_ok()
}

/// Answers what the job asks this node as the site of its destination.
pub(super) fn ask_here(
    shared: &Shared,
    own: &Peer,
    question: &Question,
) -> Result<Answer, Refusal> {
    match question {
        // The owner of the job may write there, which was looked at when the attempt began.
        Question::Grant(wish) => {
            grants::grant(shared, &own.identity, None, wish, &|_, _, _| Ok(()))
        }
        Question::Revoke { job } => grants::revoke(shared, &own.identity, job),
        _ => Err(Refusal::new(
            code::INVALID,
            "this node is not asked that about a job of its own",
        )),
    }
}
