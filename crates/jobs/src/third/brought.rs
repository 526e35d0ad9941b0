//! Jobs that fetch from a cluster: its nodes bring the data here, as they would to any site, instead of one node here fetching it.
//! Runs none of them.

use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::job::JobKind;
use godwit_api::rest::{Divide, HERE};
use godwit_state::Job;

use super::site;
use crate::{Shared, grants, spec};

/// Whether the site of the sources is to bring the job here: its sources are of one other site that can connect to this node, and several
/// nodes there serve them, or the job is to be divided in any case. Whatever is not known, one node here fetches.
pub(crate) fn is_brought(shared: &Shared, job: &Job, note: &dyn Fn(&str)) -> bool {
    let fetches = job.destination.site == HERE && job.sources.iter().all(|one| one.site != HERE);
    if !fetches || crate::guests::asker_of(job).is_some() {
        return false;
    }
    let stored = shared.replica.reader().job_spec(&job.id);
    let Ok(Some(Ok(new))) = stored.map(|stored| stored.map(|text| spec::parse(&text))) else {
        return false;
    };
    if new.divide == Divide::Never || new.kind == JobKind::Verify || new.manifest {
        return false;
    }
    let (Some(own), Some(first)) = ((shared.config.own)(), job.sources.first()) else {
        return false;
    };
    let Ok((from, nodes)) = site(shared, job, &first.site) else {
        return false;
    };
    if nodes.len() < 2 && new.divide == Divide::Auto {
        return false;
    }
    let reach = Question::Reach { peer: own };
    let reached = shared.config.sites.ask(Some(&from), &reach, &mut |_| {
        !shared.stopping.load(std::sync::atomic::Ordering::SeqCst)
    });
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
        Question::Grant(wish) => grants::grant(shared, &own.identity, wish, &|_, _, _| Ok(())),
        Question::Revoke { job } => grants::revoke(shared, &own.identity, job),
        _ => Err(Refusal::new(
            code::INVALID,
            "this node is not asked that about a job of its own",
        )),
    }
}
