//! Reports the state of a job without an attempt once to its sites: paused, stopped, or waiting, with the remaining nodes.
//! Decides not which jobs (`pending`).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use godwit_api::ask::{Peer, Question, SteerJob, SteerVerb, code};
use godwit_api::grant::Mandate;
use godwit_api::rest::HERE;
use godwit_state::{Job, JobState, Node, Route};

use super::{Context, STOPS_WITHIN, is_passing, lone, mates, own_side, pending, route};
use crate::asking::Asking;
use crate::attempt::askers::{asker, askers};
use crate::basis::error::JobsError;
use crate::rights::Rights;

/// How long the search for a node of a site that answers may take. Two nodes that are down take twenty seconds, and the third one is asked.
const FOUND_WITHIN: Duration = Duration::from_secs(25);

/// A site of the job, or an independent node of one.
struct SiteNotice {
    site: Peer,
    /// The identity by which the whole site is known.
    known_as: Option<String>,
    questions: Vec<Question>,
}

/// Asks the sites of a job; returns whether all of them know.
pub(super) fn notify(
    context: &Context,
    id: &str,
    away: &mut HashSet<String>,
) -> Result<bool, JobsError> {
    let reader = context.this.reader();
    let Some(job) = reader.job(id)? else {
        return Ok(true);
    };
    // The attempt does the work itself.
    if job.state.moves() {
        return Ok(false);
    }
    if pending::is_old(&context.this, &job) || !mates::speaks_for(&context.asking, &job)? {
        return Ok(true);
    }
    let others = askers(&context.rights, &job)?;
    let mut all_reported = report_here(&context.rights, &job, &others)?;
    for one in sites(&context.asking, &job, away)? {
        if away.contains(&one.site.identity) {
            all_reported = false;
            continue;
        }
        let mandates = std::iter::once(None).chain(others.iter().map(Some));
        let asked =
            mandates.flat_map(|mandate| one.questions.iter().map(move |one| (mandate, one)));
        for (mandate, question) in asked {
            // The job may have changed since the beginning: the next attempt reports the rest.
            let now = reader.job(id)?;
            if now.is_none_or(|now| (now.epoch, now.state) != (job.epoch, job.state)) {
                return Ok(false);
            }
            let sites = &context.asking.sites;
            // All jobs wait for this thread, and a site could show for ever that it works.
            let until = Instant::now() + STOPS_WITHIN;
            let asked = sites.ask_for(mandate, Some(&one.site), question, &mut |_| {
                Instant::now() < until && !context.this.is_stopping()
            });
            let Err(refusal) = asked else {
                continue;
            };
            all_reported &= !is_passing(&refusal);
            if refusal.code.is_one_of(&[code::UNREACHABLE, code::GIVEN_UP]) {
                away.insert(one.site.identity.clone());
                // Another node of the site than the asked one may be the known one.
                away.extend(one.known_as.clone());
                break;
            }
        }
    }
    Ok(all_reported)
}

/// The sites of the job, with the questions to each.
fn sites(asking: &Asking, job: &Job, away: &HashSet<String>) -> Result<Vec<SiteNotice>, JobsError> {
    let mut names: Vec<&str> = job
        .sources
        .iter()
        .map(|place| place.site.as_str())
        .collect();
    names.push(&job.destination.site);
    names.dedup();
    names.retain(|name| *name != HERE);
    // A site that is not known any more cannot be asked; its access expires.
    let found = names.into_iter().filter_map(|name| {
        // A site may have hundreds of nodes that are silent, one after the other.
        let until = Instant::now() + FOUND_WITHIN;
        let goes_on = || Instant::now() < until;
        let (peers, nodes) = lone::all(asking, job, name, away, &goes_on).ok()?;
        Some((name, peers, nodes))
    });
    let found: Vec<_> = found.collect();
    let reader = asking.this.reader();
    let rows = reader.objects::<Node>()?;
    let mates: Vec<String> = rows.into_iter().map(|row| row.identity).collect();
    let all_nodes = found.iter().flat_map(|(_, _, nodes)| nodes);
    let mut able: Vec<String> = all_nodes.map(|node| node.identity.clone()).collect();
    let peers = found.iter().flat_map(|(_, peers, _)| peers);
    able.extend(peers.map(|peer| peer.identity.clone()));
    able.extend(mates.iter().cloned());
    let route = route::noted(&reader, job)?;
    let notices = found.into_iter().flat_map(|(name, peers, _)| {
        let runs = match route {
            Some(Route::Pull) => name == job.destination.site,
            _ => name != job.destination.site || route == Some(Route::Within),
        };
        let keep = match job.state {
            state if state.ended() => Vec::new(),
            // Only the nodes of this cluster still find the job where it runs. A resumed job gets access again.
            JobState::Paused if runs => mates.clone(),
            JobState::Paused if route.is_some() => Vec::new(),
            _ => able.clone(),
        };
        let questions = questions(job, keep);
        let known_as = lone::identity(&reader, job, name);
        peers.into_iter().map(move |site| SiteNotice {
            site,
            known_as: known_as.clone(),
            questions: questions.clone(),
        })
    });
    Ok(notices.collect())
}

fn questions(job: &Job, keep: Vec<String>) -> Vec<Question> {
    let verb = match job.state {
        JobState::Paused => Some(SteerVerb::Pause),
        state if state.ended() => Some(SteerVerb::Cancel),
        _ => None,
    };
    let steer = verb.map(|verb| {
        Question::Steer(SteerJob {
            job: job.id.clone(),
            verb: Some(verb),
            ..SteerJob::default()
        })
    });
    let revoke = Question::Revoke {
        job: job.id.clone(),
        keep,
    };
    steer.into_iter().chain([revoke]).collect()
}

/// Revokes the access that this cluster gave for a job whose data is sent to here.
fn report_here(rights: &Rights, job: &Job, others: &[Mandate]) -> Result<bool, JobsError> {
    let Some(own) = asker(&rights.cluster, None).filter(|_| job.destination.site == HERE) else {
        return Ok(true);
    };
    if !job.state.ended() && job.state != JobState::Paused {
        return Ok(true);
    }
    let revoke = Question::Revoke {
        job: job.id.clone(),
        keep: Vec::new(),
    };
    let others = others.iter().map(|mandate| mandate.asker.as_str());
    let mut all_reported = true;
    for asker in std::iter::once(own.as_str()).chain(others) {
        let asked = own_side::ask_here(rights, asker, &revoke);
        all_reported &= !asked.is_err_and(|refusal| is_passing(&refusal));
    }
    Ok(all_reported)
}
