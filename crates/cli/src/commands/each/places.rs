//! Refuses destinations that are one place, or that lie in another destination or in the source.
//! Opens no file and connects to nothing: `exports` asks the nodes. A lock at each destination finds the rest.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use godwit_api::ask::OVERLAPS_MAX;
use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::job::{JobKind, JobSpec, Text};
use godwit_api::settings::CpSettings;
use godwit_net::{IdentityId, KnownPeers, PeerAddress};
use godwit_run::itself::{Judged, judge_here};
use godwit_run::local::last_name;

use super::{exports, shown};
use crate::exit::{Failure, FailureCode};
use crate::home::Home;

/// The paths that the transfer to a destination will write.
struct Place {
    name: String,
    /// The machine or node; `None` for this machine.
    at: Option<String>,
    /// How to reach the node, if its identity is known.
    node: Option<(PeerAddress, IdentityId)>,
    /// The paths that may be written there. There are several if only the other machine can choose.
    paths: Vec<Vec<u8>>,
}

/// How two places meet.
enum Meeting {
    Same,
    FirstInside,
    SecondInside,
}

/// Refuses jobs whose destinations meet each other or their source.
pub(super) fn refuse(
    specs: &[&JobSpec],
    settings: &CpSettings,
    home: &Home,
) -> Result<(), Failure> {
    let places: Vec<Place> = specs
        .iter()
        .filter_map(|spec| place_of(spec, settings, home))
        .collect();
    for (number, second) in places.iter().enumerate() {
        for first in &places[..number] {
            let [one, other] = [&first.name, &second.name];
            let why = match meeting(first, second) {
                None => continue,
                Some(Meeting::Same) => {
                    format!("{one} and {other} are one place: name each destination once")
                }
                Some(Meeting::FirstInside) => inside(one, other),
                Some(Meeting::SecondInside) => inside(other, one),
            };
            return Err(Failure::usage(why));
        }
    }
    refuse_at_nodes(&places, settings, home)?;
    let source = specs.first().and_then(|spec| spec.sources.first());
    let Some(real) = source.and_then(real_source) else {
        return Ok(());
    };
    let bounded = settings.selection.one_file_system;
    for place in places.iter().filter(|place| place.at.is_none()) {
        let deletes = settings.comparison.delete;
        let judged = judge_here(std::slice::from_ref(&real), &place.paths, deletes, bounded);
        if let Judged::Meet(reason) = judged {
            let why = format!("{}: {reason}", place.name);
            return Err(Failure::new(FailureCode::IntoItself, why));
        }
    }
    Ok(())
}

/// Refuses destinations at one node that overlap by its answer: two of its exports may lead to one directory.
fn refuse_at_nodes(places: &[Place], settings: &CpSettings, home: &Home) -> Result<(), Failure> {
    let mut asked: HashSet<IdentityId> = HashSet::new();
    for (address, identity) in places.iter().filter_map(|place| place.node.as_ref()) {
        if !asked.insert(*identity) {
            continue;
        }
        let is_there = |place: &&Place| place.node.as_ref().is_some_and(|node| node.1 == *identity);
        let there: Vec<&Place> = places.iter().filter(is_there).collect();
        if there.len() < 2 {
            continue;
        }
        // Each path with the number of its destination.
        let mut ways: Vec<(usize, &[u8])> = Vec::new();
        for (number, place) in there.iter().enumerate() {
            ways.extend(place.paths.iter().map(|path| (number, path.as_slice())));
        }
        ways.truncate(OVERLAPS_MAX);
        let paths = ways.iter().map(|(_, path)| Text(path.to_vec())).collect();
        for found in exports::overlaps(address, *identity, paths, settings, home) {
            // The answer of a node may hold any numbers.
            let pair = ways.get(found.one).zip(ways.get(found.other));
            let Some(((one, _), (other, _))) = pair.filter(|(one, other)| one.0 != other.0) else {
                continue;
            };
            let [one, other] = [*one, *other].map(|number| there.get(number).map(|it| &*it.name));
            let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
            return Err(Failure::usage(match found.same {
                true => format!("{one} and {other} are one place: name each destination once"),
                false => format!(
                    "of {one} and {other}, one is inside the other, so one transfer would write into the copy of the other: name places apart"
                ),
            }));
        }
    }
    Ok(())
}

fn inside(inner: &str, outer: &str) -> String {
    format!(
        "{inner} is inside {outer}, so one transfer would write into the copy of the other: name places apart, with a slash behind a directory that the copy goes into"
    )
}

fn meeting(first: &Place, second: &Place) -> Option<Meeting> {
    if first.at != second.at {
        return None;
    }
    let mut found = None;
    for one in &first.paths {
        for other in &second.paths {
            if one == other {
                return Some(Meeting::Same);
            }
            let is_here = first.at.is_none();
            if is_below(one, other) || (is_here && meets(other, one)) {
                found = Some(Meeting::FirstInside);
            } else if is_below(other, one) || (is_here && meets(one, other)) {
                found = Some(Meeting::SecondInside);
            }
            // Device and inode name a directory whatever leads to it.
            if is_here && meets(one, other) && meets(other, one) {
                return Some(Meeting::Same);
            }
        }
    }
    found
}

/// Whether the inner place of this machine is the outer one, or inside it, by path, mount and inode.
fn meets(outer: &[u8], inner: &[u8]) -> bool {
    let judged = judge_here(&[outer.to_vec()], &[inner.to_vec()], false, false);
    matches!(judged, Judged::Meet(_))
}

fn is_below(inner: &[u8], outer: &[u8]) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| outer.is_empty() || outer.ends_with(b"/") || rest.starts_with(b"/"))
}

fn place_of(spec: &JobSpec, settings: &CpSettings, home: &Home) -> Option<Place> {
    let name = shown(&spec.destination);
    // Entries of a list, and contents, go to the destination itself.
    let into = match (spec.kind, spec.sources.first()) {
        (JobKind::Sync, _) => None,
        (_, Some(Endpoint::Local(path))) if settings.selection.files_from.is_none() => {
            last_name(path)
        }
        (_, Some(Endpoint::Memory { .. })) => Some(b"mem".to_vec()),
        _ => None,
    };
    Some(match &spec.destination {
        Endpoint::Local(path) => Place {
            name,
            at: None,
            node: None,
            paths: vec![real_destination(path, into.as_deref())],
        },
        Endpoint::Remote(remote) => {
            let NodePlace::Export {
                name: export,
                path,
                directory,
                ..
            } = &remote.place
            else {
                return None;
            };
            let address = PeerAddress::new(&remote.node.host, remote.node.port);
            let known = KnownPeers::new(home.path()).find(&address);
            let known = known.ok().flatten();
            let at = known.map_or_else(
                || address.to_string().to_lowercase(),
                |identity| identity.to_string(),
            );
            let base = join(export.as_bytes(), path);
            Place {
                name,
                at: Some(at),
                node: known.map(|identity| (address, identity)),
                paths: possible(base, *directory || path.is_empty(), into.as_deref()),
            }
        }
        Endpoint::Ssh(place) => {
            let path = trimmed(&place.path);
            let is_directory = place.path.ends_with(b"/") || path.is_empty();
            Place {
                name,
                at: Some(format!("ssh {}", place.login.host.to_lowercase())),
                node: None,
                paths: possible(path.to_vec(), is_directory, into.as_deref()),
            }
        }
        Endpoint::Memory { .. } | Endpoint::Null | Endpoint::Stdio => return None,
    })
}

/// The paths that a destination elsewhere may mean. Only the other machine knows whether it is a directory.
fn possible(base: Vec<u8>, is_directory: bool, into: Option<&[u8]>) -> Vec<Vec<u8>> {
    match into {
        None => vec![base],
        Some(name) if is_directory => vec![join(&base, name)],
        Some(name) => vec![join(&base, name), base],
    }
}

fn join(above: &[u8], below: &[u8]) -> Vec<u8> {
    match (above, below) {
        (above, b"") => above.to_vec(),
        (b"", below) => below.to_vec(),
        (above, below) => [trimmed(above), b"/", below].concat(),
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_suffix(b"/")
        && !rest.is_empty()
    {
        path = rest;
    }
    path
}

/// The real path of a source, if it exists.
fn real_source(source: &Endpoint) -> Option<Vec<u8>> {
    let Endpoint::Local(path) = source else {
        return None;
    };
    path.canonicalize()
        .ok()
        .map(|real| real.into_os_string().into_vec())
}

/// The path that a transfer to a destination of this machine writes.
fn real_destination(path: &Path, into: Option<&[u8]>) -> Vec<u8> {
    let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = nearest(&absolute);
    if let Some(name) = into
        && (is_directory || real.is_dir())
    {
        real.push(OsStr::from_bytes(name));
    }
    real.into_os_string().into_vec()
}

/// The real path of the nearest directory above that exists, and the rest as typed. The transfer refuses a missing parent.
fn nearest(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => nearest(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(paths: &[&str]) -> Place {
        Place {
            name: String::new(),
            at: Some("node".to_owned()),
            node: None,
            paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        }
    }

    #[test]
    fn places_of_a_node_meet_by_their_paths() {
        let to = |path: &str, directory| {
            let paths = possible(path.as_bytes().to_vec(), directory, Some(b"src"));
            let paths = paths
                .iter()
                .map(|path| std::str::from_utf8(path).expect("text"));
            node(&paths.collect::<Vec<_>>())
        };
        let met = |one: &Place, other: &Place| meeting(one, other).is_some();
        assert!(!met(&to("data", true), &to("data/sub", true)));
        assert!(!met(&to("data/a", false), &to("data/b", false)));
        assert!(!met(&to("data/a", false), &to("data/ab", false)));
        assert!(met(&to("data/a", false), &to("data/a", true)));
        assert!(met(&to("data", true), &to("data/src", false)));
        assert!(met(&to("data/a", false), &to("data/a/b", true)));
        let elsewhere = Place {
            at: Some("other".to_owned()),
            ..to("data", true)
        };
        assert!(!met(&to("data", true), &elsewhere));
    }

    #[test]
    fn places_here_meet_whatever_leads_to_them() {
        let directory = tempfile::tempdir().expect("made");
        let below = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(below("a/b")).expect("made");
        std::os::unix::fs::symlink("a", below("link")).expect("made");
        let place = |name: &str| Place {
            name: name.to_owned(),
            at: None,
            node: None,
            paths: vec![real_destination(&below(name), Some(b"src"))],
        };
        let met = |one: &str, other: &str| meeting(&place(one), &place(other));
        assert!(matches!(met("a", "link"), Some(Meeting::Same)));
        assert!(matches!(met("a", "link/"), Some(Meeting::Same)));
        assert!(matches!(met("new", "link/../new"), Some(Meeting::Same)));
        assert!(met("a", "a/b").is_none(), "a/src and a/b/src");
        assert!(matches!(met("a/src/x/", "a"), Some(Meeting::FirstInside)));
        assert!(matches!(
            met("a", "link/src/x/"),
            Some(Meeting::SecondInside)
        ));
        assert!(met("new", "newer").is_none());
    }
}
