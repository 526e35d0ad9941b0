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
    /// the submission, or another node may have checked it. Merged sources have one destination, and run one after another.
    pub(crate) fn overlap_of(&self, job: &Job) -> Result<Option<Overlap>, JobsError> {
        let Some(parent) = Families(self.reader).parent(&job.id)? else {
            return Ok(None);
        };
        let site = self.identity_of(&job.destination.site)?;
        let mut others = Vec::new();
        for other in Families(self.reader).children(&parent)? {
            let is_apart = other.id != job.id && other.destination != job.destination;
            if is_apart && self.identity_of(&other.destination.site)? == site {
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
    use std::sync::Arc;

    use godwit_data_port::Exported;
    use godwit_run::Process;
    use godwit_state::{Actor, Command, FEATURE_LEVEL, NewFamily, Op, Role, Store, Timestamp};
    use godwit_worlds::export;

    use super::*;
    use crate::basis::examples::new_job;

    #[test]
    fn merged_sources_share_their_destination_and_other_children_share_no_directory() {
        let home = tempfile::tempdir().expect("a directory");
        let data = home.path().join("data");
        std::fs::create_dir(&data).expect("made");
        let path = home.path().join("state.db");
        let mut store = Store::open(&path).expect("open");
        let mut index = 0;
        let mut op = |op| {
            index += 1;
            let alice = Actor {
                name: "alice".to_owned(),
                role: Some(Role::Operator),
                ..Actor::default()
            };
            let command = Command::new(Timestamp(1), alice, op);
            let done = store.apply(index, &command).expect("applied");
            done.expect("taken");
        };
        op(Op::Level(FEATURE_LEVEL));
        for (name, site, places) in [
            ("m", HERE, ["/one/all/", "/one/all/"]),
            ("n", "siteD", ["/one/all/", "/one/all/"]),
            ("s", HERE, ["/one/all/", "/other/all/"]),
            ("t", "siteD", ["/one/all/", "/other/all/"]),
        ] {
            let child = |number: usize| {
                let from = ["siteB", "siteC"][number];
                new_job(
                    &format!("{name}{}", number + 1),
                    from,
                    (site, places[number]),
                )
            };
            op(Op::SubmitFamily(Box::new(NewFamily {
                parent: new_job(&format!("{name}0"), "siteB", (site, places[0])),
                children: (0..2).map(child).collect(),
            })));
        }
        // Two exports of one directory.
        let exports = ["one", "other"].map(|name| export(name, &data));
        let spill = home.path().join("spill");
        let exported = Exported::new(exports.to_vec(), spill, Process::default().syncs);
        let reader = Reader::new(path);
        let apart = Apart {
            reader: &reader,
            cluster: &Cluster {
                own: Arc::new(|| None),
                members: Arc::new(|_| Ok(false)),
            },
            exported: &exported,
            elsewhere: &|_, paths| {
                let others = 1..paths.len();
                let same = |other| PlaceOverlap {
                    one: 0,
                    other,
                    same: true,
                };
                others.map(same).collect()
            },
        };
        for (id, expected) in [
            ("m1", None),
            ("m2", None),
            ("n1", None),
            ("s1", Some(Overlap::Same)),
            ("s2", Some(Overlap::Same)),
            ("t1", Some(Overlap::Same)),
        ] {
            let job = reader.job(id).expect("read").expect("there");
            assert_eq!(apart.overlap_of(&job).expect("read"), expected, "{id}");
        }
    }

    /// Otherwise a writer in an export could ask by links whether any path of the machine exists.
    #[test]
    fn links_below_an_export_say_nothing_of_what_is_outside() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |path: &str| home.path().join(path);
        std::fs::create_dir_all(at("private/x")).expect("made");
        std::fs::create_dir(at("data")).expect("made");
        for (target, link) in [("", "data/in"), ("private", "data/too")] {
            std::os::unix::fs::symlink(at(target), at(link)).expect("made");
        }
        let exports = vec![export("one", &at("data"))];
        let exported = Exported::new(exports, at("spill"), Process::default().syncs);
        drop(Store::open(&at("state.db")).expect("open"));
        let apart = Apart {
            reader: &Reader::new(at("state.db")),
            cluster: &Cluster {
                own: Arc::new(|| None),
                members: Arc::new(|_| Ok(false)),
            },
            exported: &exported,
            elsewhere: &|_, _| Vec::new(),
        };
        let place = |text: &str| -> Place { text.parse().expect("a place") };
        let [one, other] = ["here:/one/in/private/x", "here:/one/too/x"].map(place);
        let compared = apart.check(&[], &[&one, &other]);
        compared.expect("both are one directory outside");
        for (path, is_seen) in [
            ("/one", true),
            ("/one/in", true),
            ("/one/none/x", true),
            ("/one/in/private", false),
            ("/one/too/x", false),
        ] {
            let real = exported.real(Path::new(path));
            assert_eq!(real.is_some(), is_seen, "{path}");
        }
    }

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
