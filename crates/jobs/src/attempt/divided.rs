//! Jobs that are divided among nodes: which are, their controller as an attempt, and the worker of this node for each of them.
//! Divides nothing itself: `controller` does.

mod context;
mod counted;
pub(crate) mod flights;
mod listed;
mod progress;
mod settled;
mod summary;
mod wish;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, GoOn, Peer, Question, Refusal, RunningJob};
use godwit_api::event::{EventSink as _, Summary};
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::grant::Mandate;
use godwit_api::job::JobKind;
use godwit_api::rest::{NodeProgress, ProgressView};
use godwit_controller::{Base, End, Mate, Node, Order, Worker, census, control};
use godwit_run::Control;
use godwit_run::walk::PART_BYTES;
use godwit_state::{Job, JobState, Op, Reader, Site, Work, WorkOp, Works};

use crate::asking::{Asking, hosts, manifest, reached};
use crate::attempt::askers::askers;
use crate::attempt::claim::{claim_of, tag_of};
use crate::attempt::divided::flights::Flights;
use crate::attempt::divided::flights::steady::Steady;
use crate::attempt::shared::{IsBehind, Sharing};
use crate::attempt::{AttemptEvents, Placing};
use crate::basis::clock::now;
use crate::basis::documents;
use crate::basis::ends::{needs, reaches};
use crate::basis::error::JobsError;
use crate::basis::owners::asker_of;
use crate::basis::spec::{self, Prepared};
use crate::basis::stored::Stored;
use crate::basis::words::clip;
use crate::rights::access::RightsAtStart;
use crate::rights::asker::mandate_of;
pub(crate) use context::Context;
use counted::Counted;
use progress::{Scans, done, late, moved, shown_as};
use wish::member_mandate;
pub(crate) use wish::{Wish, can_divide, is_lone_pair, mates, wish};

/// How long a node retries if the settings of a job do not set it.
const RETRY_FOR: Duration = Duration::from_secs(300);

/// Note for a job that was to be divided and is not.
const WHOLE: &str = "the job is not divided among nodes";

/// Controls a divided job to its end; None where it is not divided after all.
pub(crate) fn carry_out(
    shared: &Arc<Context>,
    job: &Job,
    epoch: u64,
    wish: &Wish,
    prepared: &Prepared,
    events: &AttemptEvents,
    steering: &Control,
) -> Option<Result<Summary, Failure>> {
    let (began, mandate) = (Instant::now(), wish.mandate.as_ref());
    let node = node(shared, &prepared.sites, job, mandate, wish.at_start, None);
    let identity = match (shared.make_env)(&[]).home.identity() {
        Ok(identity) => identity.id().to_string(),
        Err(failure) => return Some(Err(failure)),
    };
    let name = shared.this.name.clone();
    let own = Mate { name, identity };
    let flights = Arc::new(Flights::new(&job.id));
    let placing = Placing::of(&shared.this, &job.id, epoch, steering, None, None);
    let claim = claim_of(&shared.this.reader(), job);
    let crew = || [vec![own.clone()], mates(&shared.this, job)].concat();
    let order = Order {
        crew: &crew,
        job: &job.id,
        known_as: mandate.map_or(&job.id, |mandate| &mandate.job),
        gives_access: mandate.is_none(),
        epoch,
        base: base(prepared),
        sources: &wish.sources,
        destination: &wish.destination,
        peer: reached::peer(&wish.site),
        believed: wish.believed(&shared.asking),
        claim,
        into: placing.earlier().into,
        // Access that these askers gave expires soon if it is not renewed.
        earlier: askers(&shared.rights, job).unwrap_or_default(),
        placed: &|into| placing.placed(into, tag_of(claim)),
        part_bytes: PART_BYTES,
        always: wish.always,
        nodes_max: wish.nodes_max,
        traffic: &|| flights.traffic(),
        note: &|text| events.note(text),
        without: &|nodes| events.goes_on_without(nodes, asker_of(job).is_none()),
    };
    let limit = || shared.live.limit(&job.id).unwrap_or(0);
    let goes_on = || !steering.is_cancelled() && !shared.this.is_stopping();
    let sites = Arc::new(Mandated {
        sites: Arc::clone(&shared.asking.sites),
        mandate: mandate.cloned(),
    });
    let counted = Counted::default();
    let count = |work: &Work| {
        let (node, base, work) = (node.clone(), order.base.clone(), work.clone());
        let (own, steering, flights) = (Arc::clone(shared), steering.clone(), Arc::clone(&flights));
        counted.begin(move || {
            let is_over = || steering.is_cancelled() || flights.have_ended();
            let goes_on = || !is_over() && !own.this.is_stopping();
            census(&node, &base, &work, &goes_on)
        });
    };
    let end = std::thread::scope(|scope| {
        scope.spawn(|| flights.follow(shared));
        let _ends = flights.ends();
        let mut steady = Steady::new(Instant::now());
        let mut scans = Scans::default();
        let mut is_counted = false;
        control(&node, sites, &order, &limit, &goes_on, &mut |work| {
            if work.counts.leases > 0 {
                events.enter(JobState::Running);
            }
            let now = Instant::now();
            let shown = steady.show(now, done(work), |since| flights.since(since));
            if !std::mem::replace(&mut is_counted, true) {
                count(work);
            }
            let found = match scans.are_open(&shared.this.reader(), &job.id, now) {
                true => counted.found(),
                false => Some(work.counts.looked),
            };
            events.seen(
                shown_as(work, shown, found, flights.sum(limit())),
                moved(work),
                &|| Some(flights.rate()),
            );
        })
    });
    match end {
        End::Undivided(why) => {
            events.note(&format!("{WHOLE}: {why}"));
            None
        }
        End::Stopped => {
            settled::take_amounts(&shared.this, &job.id, epoch, events);
            let code = FailureCode::Cancelled;
            Some(Err(Failure::new(code, "the attempt was stopped")))
        }
        End::Failed(failure) => {
            summary::failed((shared, job), &failure, (began, &flights), events);
            Some(Err(failure))
        }
        End::Done { work, unconfirmed } => {
            if !unconfirmed.is_empty() {
                let late = late(&unconfirmed);
                events.note(&late);
                events.lock().late = Some(late);
            }
            let sum = summary::ended(&work, &order.base, (began, &flights), events);
            Some(Ok(sum))
        }
    }
}

/// Asks for a job of another node.
struct Mandated {
    sites: Arc<dyn AskSites>,
    mandate: Option<Mandate>,
}

impl AskSites for Mandated {
    fn ask_for(
        &self,
        mandate: Option<&Mandate>,
        site: Option<&Peer>,
        question: &Question,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        self.sites
            .ask_for(mandate.or(self.mandate.as_ref()), site, question, go_on)
    }

    fn reach(&self, site: &Peer, within: Duration) -> Result<(), Refusal> {
        self.sites.reach(site, within)
    }
}

/// Tells why a job is not divided that was to be.
pub(crate) fn whole(events: &AttemptEvents, why: &str) {
    events.note(&format!("{WHOLE}: {why}"));
}

fn base(prepared: &Prepared) -> Base {
    // Settings that cannot be read have been refused when the job was submitted.
    let settings = prepared.spec.copy_settings().ok();
    let settings = settings.as_ref();
    Base {
        deletes: settings.is_some_and(|settings| settings.comparison.delete),
        kind: prepared.spec.kind,
        settings: prepared.spec.settings.clone(),
        selection: prepared.spec.selection.clone(),
        manifest: None,
        retry_for: settings.map_or(RETRY_FOR, |settings| settings.retry_for),
    }
}

fn node(
    shared: &Arc<Context>,
    sites: &[Site],
    job: &Job,
    mandate: Option<&Mandate>,
    at_start: RightsAtStart,
    sharing: Option<Sharing>,
) -> Node {
    let (own, sites, id) = (Arc::clone(shared), sites.to_vec(), job.id.clone());
    let (exported, exports) = (Arc::clone(&shared.exported), needs(job));
    let exports: Vec<String> = exports.map(str::to_owned).collect();
    let mandate = mandate.cloned();
    let clock = shared.this.clock.clone();
    Node {
        replica: Arc::clone(&shared.this.replica),
        runner: shared.runner.clone(),
        hangs: Arc::new(move || {
            let mut exports = exports.iter();
            exports.any(|export| exported.silent_for(export).is_some())
        }),
        now: Arc::new(move || clock.now()),
        make_env: Arc::new(move |targets| {
            let nodes = targets.iter().map(|target| Site {
                name: target.name.clone(),
                addresses: target.addresses.clone(),
                identity: target.identity.clone(),
                comment: String::new(),
                nodes: Vec::new(),
            });
            // The site's latest answer names the nodes of the destination.
            let sites: Vec<Site> = nodes.chain(sites.iter().cloned()).collect();
            godwit_run::Env {
                label: Some(format!("job {id}")),
                mandate: mandate.clone(),
                hides_names: !at_start.names,
                hides_contents: !at_start.contents,
                seat: sharing.as_ref().and_then(Sharing::lasting_seat),
                ..(own.make_env)(&sites)
            }
        }),
    }
}

/// A node of the destination of a divided job.
fn target(asking: &Asking, job: &str, identity: &str) -> Option<Peer> {
    let work = Works(&asking.this.reader()).of(job).ok().flatten()?;
    let mut nodes = work.targets.nodes.into_iter();
    nodes.find(|node| node.identity == identity)
}

/// A worker, the rights of its job at its beginning, and a question whether it is behind the workers of other destinations; None for a job that
/// shares no reads.
type Working = (Worker, RightsAtStart, Option<IsBehind>);

/// The workers of this node, by the ids of their jobs.
#[derive(Default)]
pub(crate) struct Workers {
    workers: Mutex<BTreeMap<String, Working>>,
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Working>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the workers match the state: one for each job with open work that moves and whose sources are here, and none if this node
    /// takes no jobs. Returns whether a worker is about to end, so that its job waits for it.
    pub(crate) fn follow_up(
        &self,
        shared: &Arc<Context>,
        reader: &Reader,
        draining: bool,
    ) -> Result<bool, JobsError> {
        let mut wanted = BTreeMap::new();
        let works = Works(reader).all()?;
        for work in works.iter().filter(|_| !draining) {
            let job = reader.job(&work.job)?;
            let job = job.filter(|job| job.epoch == work.epoch && job.state.moves());
            if let Some(job) = job.filter(|job| reaches(&shared.this.exports, job)) {
                wanted.insert(work.job.clone(), (work.clone(), job));
            }
        }
        let mut workers = self.lock();
        // A worker that sees more than the owner may see now ends; the next one takes the remaining items.
        let unwanted = |id: &String, (worker, at_start, _): &Working| {
            wanted.get(id).is_none_or(|(work, job)| {
                work.epoch != worker.epoch() || at_start.lost(&shared.rights, job).is_some()
            })
        };
        workers
            .iter()
            .filter(|(id, worker)| unwanted(id, worker))
            .for_each(|(_, (worker, ..))| {
                worker.stop();
            });
        workers.retain(|_, (worker, ..)| !worker.is_finished());
        let is_ending = workers.iter().any(|(id, worker)| unwanted(id, worker));
        // Leases that a worker could not return when it ended.
        let left = works.iter().filter(|work| !workers.contains_key(&work.job));
        for work in left {
            let node = shared.this.name.clone();
            if Works(reader).holds(&work.job, &node)? {
                let op = Op::Work(work.job.clone(), WorkOp::Return { node });
                shared.this.propose(op)?;
            }
        }
        for (id, (work, job)) in wanted {
            let pair = work.pairs.iter().find(|pair| pair.node == shared.this.name);
            // Without a pair the node finishes its lease at the earlier rate.
            let limit = pair.map(|pair| pair.limit);
            if !workers.contains_key(&id) {
                // The job keeps the rights that it had at its beginning, and never gets wider ones.
                let at_start = RightsAtStart::of(&shared.rights, &job);
                let started = start(shared, reader, &job, at_start)?;
                workers.extend(started.map(|working| (id.clone(), working)));
            }
            if let Some((worker, ..)) = workers.get(&id) {
                limit.into_iter().for_each(|limit| worker.set_limit(limit));
            }
        }
        Ok(is_ending)
    }

    /// Transfers of the workers now, each for another node or this one.
    pub(crate) fn flights(&self, asking: &Arc<Asking>) -> Vec<RunningJob> {
        let flight = |(id, (worker, _, is_behind)): (&String, &Working)| {
            (
                id.clone(),
                worker.flight(),
                worker.faults(),
                is_behind.clone(),
            )
        };
        let flights: Vec<_> = self.lock().iter().map(flight).collect();
        // The figures and the state are read without the lock.
        let host = match flights.is_empty() {
            true => BTreeMap::new(),
            false => asking.hosts.own(),
        };
        let running = flights.into_iter().map(|(id, flight, faults, is_behind)| {
            let limited = flight.bottleneck.as_ref();
            let written = flight.written();
            let node = NodeProgress {
                node: asking.this.name.clone(),
                to: flight.to_name.clone(),
                bytes_per_second: flight.bytes_per_second,
                streams: flight.streams,
                bottleneck: limited.map(|limited| limited.stage),
                bottleneck_text: limited.map(documents::limited),
                stages: flight.stages.clone(),
                host: host.clone(),
                other_host: target(asking, &id, &flight.to)
                    .map_or_else(BTreeMap::new, |node| hosts::of_other(asking, &node)),
            };
            RunningJob {
                id,
                progress: ProgressView {
                    at: now(),
                    // A close finds the files that were moved before.
                    bytes: match flight.closes {
                        true => flight.moved().bytes,
                        false => flight.bytes,
                    },
                    files: flight.files,
                    bytes_per_second: Some(flight.bytes_per_second),
                    behind: is_behind.is_some_and(|is_behind| is_behind()),
                    streams: flight.streams,
                    moved: flight.moved(),
                    channels: flight.channels,
                    nodes: vec![node],
                    ..ProgressView::default()
                },
                works: true,
                to: flight.to,
                written,
                faults,
            }
        });
        running.collect()
    }

    /// Has all workers stop, and waits for none.
    pub(crate) fn leave(&self) {
        let workers = self.lock();
        workers.values().for_each(|(worker, ..)| worker.stop());
    }

    /// Ends all workers.
    pub(crate) fn end(&self) {
        let workers = std::mem::take(&mut *self.lock());
        workers.values().for_each(|(worker, ..)| worker.stop());
        workers.into_values().for_each(|(worker, ..)| worker.wait());
    }
}

fn start(
    shared: &Arc<Context>,
    reader: &Reader,
    job: &Job,
    at_start: RightsAtStart,
) -> Result<Option<Working>, JobsError> {
    let Some(text) = reader.job_spec(&job.id)? else {
        return Ok(None);
    };
    let stored = Stored::parse(&text)?;
    let find = |name: &str| stored.site(reader, name);
    let prepared = spec::prepare(&stored.new, &find)?;
    if prepared.spec.kind == JobKind::Verify {
        return Ok(None);
    }
    let mandate = match &stored.guest {
        Some(guest) => mandate_of(job, guest),
        None => member_mandate(&shared.this, reader, job)?,
    };
    let moment = (&*shared.this.name, shared.this.now());
    let sharing = shared.shared.share(reader, job, moment, true)?;
    let is_behind = sharing.as_ref().and_then(Sharing::is_behind);
    let mandate = mandate.as_ref();
    let node = node(shared, &prepared.sites, job, mandate, at_start, sharing);
    let file = || manifest::file(&shared.this.directory, job);
    let base = Base {
        manifest: stored.new.manifest.then(file),
        ..base(&prepared)
    };
    match Worker::start(node, job.id.clone(), job.epoch, base) {
        Ok(worker) => Ok(Some((worker, at_start, is_behind))),
        Err(error) => {
            let id = &job.id;
            shared
                .this
                .log(&clip(&format!("job {id}: no thread to work: {error}")));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
