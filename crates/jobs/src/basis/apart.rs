//! Decides whether destinations of one job are one place, or one is inside another: by their names, and by their directories.
//! Writes nothing. Only a site knows the directories of its exports, so its answer comes from the caller.

use std::collections::HashSet;
use std::path::Path;

use godwit_api::ask::PlaceOverlap;
use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::{HERE, Place};
use godwit_run::itself::{Located, Overlap};
use godwit_run::local::ExportedFiles;
use godwit_state::{Families, Job, Reader, Site, StoredPlace};

use crate::basis::cluster::Cluster;
use crate::basis::documents;
use crate::basis::error::JobsError;

/// Which of these paths, export first, overlap at the site that has this name here. No pair if the site gives no answer.
pub(crate) type AskSite<'a> = dyn Fn(&str, Vec<Text>) -> Vec<PlaceOverlap> + 'a;

/// The facts by which destinations are compared.
pub(crate) struct Apart<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) cluster: &'a Cluster,
    /// The exports of this node.
    pub(crate) exported: &'a dyn ExportedFiles,
    /// Asks another site about its exports.
    pub(crate) elsewhere: &'a AskSite<'a>,
}

/// A destination that was compared with those before it.
struct Known<'a> {
    place: &'a Place,
    /// The identity of its site.
    site: String,
    /// Its directory, if this node sees it.
    located: Option<Located>,
}

impl Apart<'_> {
    /// Refuses destinations that are one place, or of which one is inside another or inside a source. The identity of a site counts,
    /// not its name.
    pub(crate) fn check(
        &self,
        sources: &[Place],
        destinations: &[&Place],
    ) -> Result<(), JobsError> {
        let mut known: Vec<Known<'_>> = Vec::new();
        for place in destinations.iter().copied() {
            if place.is_memory() {
                continue;
            }
            let site = self.identity_of(&place.site)?;
            for source in sources.iter().filter(|source| !source.is_memory()) {
                if self.identity_of(&source.site)? == site && is_below(place, source) {
                    return Err(invalid(format!(
                        "destination {place} is inside the source {source}"
                    )));
                }
            }
            let located = self.located(&site, &place.below_site());
            for other in known.iter().filter(|other| other.site == site) {
                let by_directory = || located.as_ref()?.overlap(other.located.as_ref()?);
                let overlap = by_name(place, other.place).or_else(by_directory);
                if let Some(overlap) = overlap {
                    return Err(refusal(other.place, place, overlap));
                }
            }
            known.push(Known {
                place,
                site,
                located,
            });
        }
        self.check_elsewhere(&known)
    }

    /// Refuses destinations that overlap by the answer of their site. Each site with several of them is asked once.
    fn check_elsewhere(&self, known: &[Known<'_>]) -> Result<(), JobsError> {
        let mut asked: HashSet<&str> = HashSet::new();
        for first in known.iter().filter(|one| !one.site.is_empty()) {
            if !asked.insert(&first.site) {
                continue;
            }
            let there = known.iter().filter(|one| one.site == first.site);
            let there: Vec<&Place> = there.map(|one| one.place).collect();
            if there.len() < 2 {
                continue;
            }
            let paths = there.iter().map(|place| Text(place.below_exports()));
            for found in (self.elsewhere)(&first.place.site, paths.collect()) {
                // The answer of a site may hold any numbers.
                let pair = there.get(found.one).zip(there.get(found.other));
                if let Some((one, other)) = pair.filter(|_| found.one != found.other) {
                    return Err(refusal(one, other, overlap(found)));
                }
            }
        }
        Ok(())
    }

    /// How the destination of a job overlaps another one of its parent at the same site now. A file system may have been mounted since
    /// the submission, or another node may have checked it.
    pub(crate) fn overlap_of(&self, job: &Job) -> Result<Option<Overlap>, JobsError> {
        let Some(parent) = Families(self.reader).parent(&job.id)? else {
            return Ok(None);
        };
        let site = self.identity_of(&job.destination.site)?;
        let mut others = Vec::new();
        for other in Families(self.reader).children(&parent)? {
            if other.id != job.id && self.identity_of(&other.destination.site)? == site {
                others.push(other.destination);
            }
        }
        if site.is_empty() {
            let own = self.located(&site, &job.destination.path);
            return Ok(own.and_then(|own| {
                let mut others = others.iter();
                others.find_map(|other| own.overlap(&self.located(&site, &other.path)?))
            }));
        }
        let path = |place: &StoredPlace| -> Option<Text> {
            let place = documents::parts(place).ok()?;
            (!place.is_memory()).then(|| Text(place.below_exports()))
        };
        let Some(own) = path(&job.destination) else {
            return Ok(None);
        };
        let others: Vec<Text> = others.iter().filter_map(path).collect();
        if others.is_empty() {
            return Ok(None);
        }
        let paths: Vec<Text> = std::iter::once(own).chain(others).collect();
        let count = paths.len();
        let found = (self.elsewhere)(&job.destination.site, paths);
        let mut own = found
            .into_iter()
            .filter(|found| found.one == 0 && (1..count).contains(&found.other));
        Ok(own.next().map(overlap))
    }

    /// The directory of a path at this site, export first, if this node sees it.
    fn located(&self, site: &str, path: &str) -> Option<Located> {
        if !site.is_empty() {
            return None;
        }
        self.exported.real(Path::new(path)).map(Located::at)
    }

    /// The identity of a site; empty for this cluster.
    pub(crate) fn identity_of(&self, name: &str) -> Result<String, JobsError> {
        if name == HERE {
            return Ok(String::new());
        }
        let site = self.reader.object::<Site>(name)?;
        let identity = site.map_or_else(|| name.to_owned(), |site| site.identity);
        let is_here = self.cluster.is_own(&identity) || self.cluster.has(&identity)?;
        Ok(if is_here { String::new() } else { identity })
    }
}

/// The relation that a site found between two places.
const fn overlap(found: PlaceOverlap) -> Overlap {
    match found.same {
        true => Overlap::Same,
        false => Overlap::Inside,
    }
}

fn refusal(one: &Place, other: &Place, overlap: Overlap) -> JobsError {
    invalid(match overlap {
        Overlap::Same => format!("{one} and {other} are one place: name each destination once"),
        Overlap::Inside => {
            format!("of {one} and {other}, one is inside the other: name places apart")
        }
    })
}

fn invalid(detail: String) -> JobsError {
    JobsError::invalid(FailureCode::Invalid, detail)
}

fn by_name(one: &Place, other: &Place) -> Option<Overlap> {
    match (is_below(one, other), is_below(other, one)) {
        (true, true) => Some(Overlap::Same),
        (false, false) => None,
        _ => Some(Overlap::Inside),
    }
}

/// Whether the inner place is the outer one, or is inside it.
pub(crate) fn is_below(inner: &Place, outer: &Place) -> bool {
    let parts = |place: &Place| -> Vec<Vec<u8>> {
        let parts = place.path.split(|byte| *byte == b'/');
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(<[u8]>::to_vec).collect()
    };
    inner.export == outer.export && parts(inner).starts_with(&parts(outer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_inside_another_by_whole_names() {
        let place = |text: &str| -> Place { text.parse().expect("a place") };
        for (inner, outer, is_inside) in [
            ("b:/data/run", "b:/data", true),
            ("b:/data/run/", "b:/data/run", true),
            ("b:/data/run42", "b:/data/run", false),
            ("b:/data", "b:/data/run", false),
            ("b:/other/run", "b:/data", false),
        ] {
            let found = is_below(&place(inner), &place(outer));
            assert_eq!(found, is_inside, "{inner} {outer}");
        }
    }
}
