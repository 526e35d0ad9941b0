//! Checks every few seconds whether the sites of waiting jobs are back: one connection for each site. The jobs of such a site may then begin
//! at once, as when an export of this node is usable again.
//! Starts no job (`scheduler`), and asks a site nothing: a site is back when it proves its identity.
//!
//! A job that waits for a passing reason has a time for its next attempt, minutes away after some attempts. A site that was away and
//! answers again makes that time pointless. A site that answered all the time wakes no job: the reason is another one.

mod site_state;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::Peer;
use godwit_api::units::counted;
use godwit_run::local::ExportedFiles;
use godwit_state::{
    Agreed, Job, JobFilter, JobState, LEVEL_SIGHTED, Op, Reader, Site, SiteAnswer, Timestamp,
};

use crate::asking::{Asking, abroad, reached};
use crate::basis::ends::{needs, sites_of};
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::pages::each_job;
use crate::basis::stored::Stored;
use crate::basis::this_node::ThisNode;
use crate::basis::words::passes;
use crate::queue::away::is_reported;
use site_state::SiteState;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);

/// An export counts as back for two looks: jobs that fail again wait for their next attempt.
const RETURNED_WITHIN: Duration = Duration::from_secs(10);

/// Time between two checks whether the node stops.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long a node of a site may take to prove its identity.
const WITHIN: Duration = Duration::from_secs(3);

/// Time for the other nodes of a site. A site may have hundreds, and other sites wait.
const ALL_WITHIN: Duration = Duration::from_secs(30);

/// Waiting jobs that one look sees: a page of the state.
const JOBS_MAX: usize = 1_000;

/// Sites that are dialled at once, nodes of one site, and sites that are dialled by one look. Sites are taken in the order of
/// their names.
const AT_ONCE: usize = 8;
const SITES_MAX: usize = 64;

/// Sites of which it is known whether they answered.
const KNOWN_MAX: usize = 1_000;

/// The jobs whose sites are back, each with the epoch in which it waits.
#[derive(Default)]
pub(crate) struct Woken(Mutex<HashMap<String, u64>>);

impl Woken {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs that need not wait for their next attempt. Jobs that changed meanwhile are forgotten.
    pub(crate) fn jobs(&self, reader: &Reader, at: Timestamp) -> Result<Vec<Job>, JobsError> {
        let ids: Vec<(String, u64)> = self.lock().clone().into_iter().collect();
        let mut jobs = Vec::new();
        for (id, epoch) in ids {
            let job = reader.job(&id)?;
            match job.filter(|job| job.epoch == epoch && waits(job, at)) {
                Some(job) => jobs.push(job),
                None => drop(self.lock().remove(&id)),
            }
        }
        Ok(jobs)
    }
}

/// Whether the job waits for its next attempt for a passing reason that a site may have caused.
fn waits(job: &Job, at: Timestamp) -> bool {
    job.state == JobState::Queued
        && job.next_attempt.is_some_and(|next| next > at)
        && job.reason.as_ref().is_some_and(|why| passes(&why.code))
}

/// Body of the thread.
pub(crate) fn run(asking: &Asking, files: &dyn ExportedFiles, woken: &Woken) {
    // The result of the last dial of each site, by its identity.
    let mut known = HashMap::new();
    while !asking.this.is_stopping() {
        // A state that cannot be read now is read at the next look.
        if let Ok(wanted) = wanted(&asking.this, files, woken, &known) {
            look(asking, woken, wanted, &mut known);
        }
        let until = Instant::now() + EVERY;
        while Instant::now() < until && !asking.this.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// A site, and the jobs that wait for it.
struct Wanted {
    site: Site,
    jobs: Vec<(String, u64)>,
    /// Jobs that wait at the site that runs them.
    abroad: Vec<String>,
}

impl Wanted {
    const fn new(site: Site) -> Self {
        Self {
            site,
            jobs: Vec::new(),
            abroad: Vec::new(),
        }
    }
}

/// The sites that waiting jobs need, by their identities. Only sites of the state are among them: another site's job chooses addresses
/// itself, and this node does not scan for it. The asker of a job that runs at another site knows the job's sites, and dials them.
///
/// A site that is reported as away is dialled without jobs, too: it may be reported as back.
fn wanted(
    this: &ThisNode,
    files: &dyn ExportedFiles,
    woken: &Woken,
    known: &Known,
) -> Result<BTreeMap<String, Wanted>, JobsError> {
    let reader = this.reader();
    let filter = JobFilter {
        states: vec![
            JobState::Queued,
            JobState::Scanning,
            JobState::Running,
            JobState::Verifying,
        ],
        ..JobFilter::default()
    };
    let at = this.now();
    let mut sites: BTreeMap<String, Wanted> = BTreeMap::new();
    let own = reader.objects::<Site>()?;
    for site in &own {
        let is_away = known
            .get(&site.identity)
            .is_some_and(|(_, state)| state.is_away());
        if is_away {
            sites.insert(site.identity.clone(), Wanted::new(site.clone()));
        }
    }
    each_job(&reader, filter, JOBS_MAX, &mut |job| {
        let is_abroad = abroad::waits(&job);
        if !is_abroad && !waits(&job, at) {
            return Ok(true);
        }
        let has_returned = |name| files.returned_within(name, RETURNED_WITHIN);
        if !is_abroad && is_reported(&job) && needs(&job).any(has_returned) {
            woken.lock().insert(job.id.clone(), job.epoch);
        }
        for name in sites_of(&job) {
            let Some(site) = own.iter().find(|site| site.name == name).cloned() else {
                continue;
            };
            // A job of another site may mean another site by the name.
            if asker_of(&job).is_some() && !means(&reader, &job, &site)? {
                continue;
            }
            let wanted = sites.entry(site.identity.clone());
            let wanted = wanted.or_insert_with(|| Wanted::new(site));
            match is_abroad {
                true => wanted.abroad.push(job.id.clone()),
                false => wanted.jobs.push((job.id.clone(), job.epoch)),
            }
        }
        Ok(true)
    })?;
    Ok(sites)
}

/// Whether a job of another site means this site by its name.
fn means(reader: &Reader, job: &Job, site: &Site) -> Result<bool, JobsError> {
    let stored = reader.job_spec(&job.id)?;
    let stored = stored.and_then(|text| Stored::parse(&text).ok());
    let other = stored.and_then(|stored| stored.other(&site.name));
    Ok(other.is_none_or(|other| other.identity == site.identity))
}

/// Whether a site answered its last dial, and the reported state, by its identity.
type Known = HashMap<String, (bool, SiteState)>;

/// Dials the sites, and wakes the jobs of those that are back.
fn look(asking: &Asking, woken: &Woken, wanted: BTreeMap<String, Wanted>, known: &mut Known) {
    if known.len() > KNOWN_MAX {
        known.clear();
    }
    let mut wanted: Vec<(String, Wanted)> = wanted.into_iter().collect();
    wanted.sort_by_key(|(_, one)| one.jobs.is_empty() && one.abroad.is_empty());
    wanted.truncate(SITES_MAX);
    for some in wanted.chunks(AT_ONCE) {
        if asking.this.is_stopping() {
            return;
        }
        let answers: Vec<bool> = std::thread::scope(|scope| {
            let dial = |one: &'_ (String, Wanted)| answers(asking, &one.1.site);
            let dials = some.iter().map(|one| scope.spawn(move || dial(one)));
            let dials: Vec<_> = dials.collect();
            let ended = dials.into_iter().map(|dial| dial.join().unwrap_or(false));
            ended.collect()
        });
        for ((identity, one), answers) in some.iter().zip(answers) {
            let now = Instant::now();
            let (before, mut state) = match known.remove(identity) {
                Some((before, state)) => (Some(before), state),
                // Nothing is known of a site that was not dialled before: its jobs are tried once.
                None => (None, SiteState::new(now)),
            };
            if state.see(answers, now) {
                report_answer(&asking.this, one, answers);
                say(&asking.this, &one.site, answers);
            }
            known.insert(identity.clone(), (answers, state));
            if answers && before != Some(true) {
                woken.lock().extend(one.jobs.iter().cloned());
                let abroad = &asking.abroad;
                one.abroad.iter().for_each(|id| abroad.wake(id));
            }
        }
    }
}

/// Says in the log that a site went or came back.
fn report_answer(this: &ThisNode, one: &Wanted, answers: bool) {
    let name = &one.site.name;
    let line = match answers {
        true => {
            let jobs = counted((one.jobs.len() + one.abroad.len()) as u64, "job");
            format!("the site {name} answers again; {jobs} that waited for the site may begin")
        }
        false => format!(
            "the site {name} does not answer; this node tries every {} s, and jobs with the site begin once it answers",
            EVERY.as_secs()
        ),
    };
    this.log(&line);
}

/// Notes that a site went or came back, for followers of the state and for webhooks. The leader does so for all nodes.
fn say(this: &ThisNode, site: &Site, answers: bool) {
    let reader = this.reader();
    let knows = Agreed(&reader)
        .level()
        .is_ok_and(|level| level >= LEVEL_SIGHTED);
    if !knows || !this.replica.is_leader() {
        return;
    }
    let op = Op::Sighted(SiteAnswer {
        site: site.name.clone(),
        identity: site.identity.clone(),
        answers,
    });
    drop(this.propose(op));
}

/// Whether a node of the site proves its identity.
fn answers(asking: &Asking, site: &Site) -> bool {
    let reaches = |node: &Peer| asking.sites.reach(node, WITHIN).is_ok();
    let reaches = &reaches;
    if reaches(&reached::peer(site)) {
        return true;
    }
    let until = Instant::now() + ALL_WITHIN;
    let others = reached::learned(site, asking.this.now());
    others.chunks(AT_ONCE).any(|some| {
        if Instant::now() >= until || asking.this.is_stopping() {
            return false;
        }
        std::thread::scope(|scope| {
            let dials = some.iter().map(|node| scope.spawn(move || reaches(node)));
            // All threads run before the first is waited for.
            let dials: Vec<_> = dials.collect();
            dials.into_iter().any(|dial| dial.join().unwrap_or(false))
        })
    })
}
