//! Decides whether a job is divided among nodes: by its description, by the nodes of both sites, and by the decision of an earlier attempt.
//! Divides nothing, and decides no route: `site` does.

use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites as _, Question};
use godwit_api::grant::Mandate;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{Divide, NewJob, Place};
use godwit_api::settings::Judge;
use godwit_controller::{Believed, Mate};
use godwit_state::{Agreed, Job, LEVEL_CLOSES, LEVEL_FIRST, Node as NodeRow, Reader, Site, Works};

use super::Mandated;
use crate::asking::{Asking, reached};
use crate::attempt::claim::kept;
use crate::basis::ends::reaches;
use crate::basis::error::JobsError;
use crate::basis::spec::{self, Prepared};
use crate::basis::this_node::ThisNode;
use crate::rights::access::RightsAtStart;

/// How long the other site may take to name its nodes.
const WITHIN: Duration = Duration::from_secs(10);

/// A job that is to be divided, by its description.
pub(crate) struct Wish {
    pub(super) sources: Vec<Place>,
    pub(super) destination: Place,
    pub(super) site: Site,
    pub(super) always: bool,
    /// Most nodes of each site that take part.
    pub(super) nodes_max: usize,
    /// Rights of the owner to see the destination, as they were when the attempt began.
    pub(super) at_start: RightsAtStart,
    /// The mandate of a job of another node.
    pub(super) mandate: Option<Mandate>,
}

impl Wish {
    /// The nodes of the destination that are believed now. For a job with a mandate only the site named with the job is known.
    pub(super) fn believed(&self, asking: &Asking) -> Believed {
        let reader = asking.this.reader();
        let of_state = match self.mandate {
            Some(_) => None,
            None => reader.object::<Site>(&self.destination.site).ok().flatten(),
        };
        let site = of_state.unwrap_or_else(|| self.site.clone());
        let others = site.believed(asking.this.now());
        Believed {
            others: others.map(|node| node.peer.identity.clone()).collect(),
            independent: reached::independent(&site),
            first: site.identity,
        }
    }
}

/// Whether a job is divided; the reason if it should be but cannot. `serving` is the number of nodes that serve the destination, where
/// that is known.
pub(crate) fn wish(
    asking: &Asking,
    job: &Job,
    new: &NewJob,
    prepared: &Prepared,
    mandate: Option<&Mandate>,
    (serving, at_start): (Option<usize>, RightsAtStart),
) -> Result<Option<Wish>, String> {
    let wanted = || {
        let wish = divisible(level(&asking.this.reader()), new, prepared)?;
        Ok(wish.map(|wish| Wish {
            at_start,
            mandate: mandate.cloned(),
            ..wish
        }))
    };
    match new.divide {
        Divide::Never => Ok(None),
        Divide::Always => wanted(),
        // A lone pair gains nothing. A job that cannot be divided is moved by one node.
        Divide::Auto => {
            if is_lone_pair(prepared) && begun(&asking.this.reader(), job) != Some(true) {
                return Ok(None);
            }
            let wish: Result<Option<Wish>, String> = wanted();
            let gains = |wish: &Wish| match begun(&asking.this.reader(), job) {
                Some(is_divided) => is_divided,
                None => {
                    let serving = || serving.unwrap_or_else(|| nodes_at(asking, wish));
                    !mates(&asking.this, job).is_empty() || serving() > 1
                }
            };
            Ok(wish.unwrap_or(None).filter(gains))
        }
    }
}

/// Whether the job is divided, as its first attempt decided. None if no attempt has begun to write.
fn begun(reader: &Reader, job: &Job) -> Option<bool> {
    if Works(reader).of(&job.id).is_ok_and(|work| work.is_some()) {
        return Some(true);
    }
    let placed = Agreed(reader).placed(&job.id).ok()?;
    let latest = placed.tags.first()?;
    Some(kept(job, &[*latest]).is_some())
}

/// Number of nodes of the other site that serve the destination, by that site's answer.
fn nodes_at(asking: &Asking, wish: &Wish) -> usize {
    let sites = Mandated {
        sites: std::sync::Arc::clone(&asking.sites),
        mandate: wish.mandate.clone(),
    };
    let question = Question::Nodes {
        path: Text(wish.destination.below_exports()),
        of: None,
    };
    let until = Instant::now() + WITHIN;
    let stopping = || asking.this.is_stopping();
    let answer = sites.ask(Some(&reached::peer(&wish.site)), &question, &mut |_| {
        Instant::now() < until && !stopping()
    });
    match answer {
        Ok(Answer::Nodes(nodes)) => nodes.len(),
        // A node outside a cluster counts as one. If the node does not answer, the attempt fails.
        _ => 1,
    }
}

/// The other nodes that may work on a job: those that reach its ends here and take jobs.
pub(crate) fn mates(this: &ThisNode, job: &Job) -> Vec<Mate> {
    let own = &this.name;
    // A node that cannot read the state now works alone for a time.
    let rows: Vec<NodeRow> = this.reader().objects().unwrap_or_default();
    rows.into_iter()
        .filter(|row| row.name != *own && !row.draining && reaches(&row.exports, job))
        .map(|row| Mate {
            name: row.name,
            identity: row.identity,
        })
        .collect()
}

/// The mandate of this node as a member of a job of this site: the controller has let it in. The controller itself needs none.
pub(super) fn member_mandate(
    this: &ThisNode,
    reader: &Reader,
    job: &Job,
) -> Result<Option<Mandate>, JobsError> {
    let controller = job.runner.as_ref().map(|runner| &runner.node);
    let Some(name) = controller.filter(|name| **name != this.name) else {
        return Ok(None);
    };
    let row = reader.object::<NodeRow>(name)?;
    Ok(row.map(|row| Mandate {
        asker: row.identity,
        job: job.id.clone(),
    }))
}

/// The level of this cluster; the lowest where it cannot be read.
fn level(reader: &Reader) -> u32 {
    let level = Agreed(reader).level();
    level.unwrap_or(LEVEL_FIRST)
}

fn divisible(level: u32, new: &NewJob, prepared: &Prepared) -> Result<Option<Wish>, String> {
    let Ok((sources, destination)) = spec::places(new) else {
        return Ok(None);
    };
    let is_memory = sources.iter().all(Place::is_memory);
    if is_memory != destination.is_memory() {
        return Err("jobs with mem: or null: are divided only from mem: to null:".to_owned());
    }
    if !sources.iter().all(Place::is_here) || destination.is_here() {
        return Err("only jobs from this site to another site are divided".to_owned());
    }
    if let Some(why) = hindrance(level, new, prepared) {
        return Err(why.to_owned());
    }
    let [site] = prepared.sites.as_slice() else {
        return Err("the destination's site is unknown".to_owned());
    };
    Ok(Some(Wish {
        sources,
        destination,
        site: site.clone(),
        always: new.divide == Divide::Always,
        nodes_max: nodes_max(prepared),
        at_start: RightsAtStart::default(),
        mandate: None,
    }))
}

/// Most nodes of each site that take part in a divided job.
fn nodes_max(prepared: &Prepared) -> usize {
    let settings = prepared.spec.copy_settings().ok();
    let most = settings.and_then(|settings| usize::try_from(settings.nodes).ok());
    most.unwrap_or(usize::MAX)
}

/// Whether one node of each site is to move the job. Such a job gains nothing from being divided.
pub(crate) fn is_lone_pair(prepared: &Prepared) -> bool {
    nodes_max(prepared) == 1
}

/// Whether the site of its sources can divide a job, by its description.
pub(crate) fn can_divide(reader: &Reader, new: &NewJob, prepared: &Prepared) -> bool {
    hindrance(level(reader), new, prepared).is_none()
}

/// Why a job cannot be divided between any ends, in a cluster of this level.
pub(super) fn hindrance(level: u32, new: &NewJob, prepared: &Prepared) -> Option<&'static str> {
    // A verification has no settings of a copy.
    if new.kind == JobKind::Verify {
        return Some("a verification copies nothing");
    }
    let Ok(settings) = prepared.spec.copy_settings() else {
        return Some("the job's settings cannot be read");
    };
    let comparison = &settings.comparison;
    // A node of an older program would write no manifest, and cut files that are compared by contents.
    let is_old = level < LEVEL_CLOSES;
    if is_old && new.manifest {
        Some("a manifest needs a single transfer until all nodes have this version")
    } else if is_old && comparison.judge != Judge::default() {
        Some("--checksum and --size-only need a single transfer until all nodes have this version")
    } else if !new.list.is_empty() {
        Some("a list of names needs a single transfer")
    } else if new.manifest && new.sources.len() > 1 {
        Some("a manifest of several sources needs a single transfer")
    } else if comparison.dry_run {
        Some("a dry run copies nothing")
    } else if comparison.delete_before {
        Some("--delete-before needs a single transfer")
    } else if settings.force {
        // The close could not distinguish files that its members have sent from files that were there before, and would send all of them
        // again.
        Some("--force needs a single transfer")
    } else {
        None
    }
}
