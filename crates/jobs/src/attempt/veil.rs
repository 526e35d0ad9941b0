//! Owns the replacement of two things in texts of a job: the node's home, because paths of the machine are for admins, and addresses of
//! sites, which a user knows by their names.
//! The node's log and its records keep the paths.

use std::path::Path;

use godwit_api::PORT_DEFAULT;
use godwit_api::event::{ErrorEvent, Event};
use godwit_api::host::HostPort;
use godwit_state::Site;

/// Entries of a home that messages of failures may name.
const IN_HOME: [&str; 5] = ["journals", "jobs", "spill", "state", "identity.pem"];

/// The text with `GODWIT_HOME` in place of the parent directory of the jobs.
pub(crate) fn without_home(jobs: &Path, text: &str) -> String {
    let Some(home) = jobs.parent().filter(|home| home.parent().is_some()) else {
        return text.to_owned();
    };
    IN_HOME.iter().fold(text.to_owned(), |text, name| {
        let path = home.join(name);
        text.replace(&*path.to_string_lossy(), &format!("GODWIT_HOME/{name}"))
    })
}

/// Hides the directory of the node in the message of an event that concerns no entry.
pub(super) fn hide_home(jobs: &Path, event: &mut Event) {
    if let Event::Error(ErrorEvent { message, .. }) | Event::Note { message } = event {
        *message = without_home(jobs, message);
    }
}

/// The scheme of places by address.
const SCHEME: &[u8] = b"godwit://";

/// Places of a node that are in no export.
const MEMORY: [&[u8]; 2] = [b"mem:", b"null:"];

/// The names of sites by the addresses of their nodes, as messages spell these.
#[derive(Default)]
pub(super) struct SiteNames(Vec<(Vec<u8>, Vec<u8>)>);

impl SiteNames {
    /// The names of the sites of a job.
    pub(super) fn of(sites: &[Site]) -> Self {
        let names = sites.iter().flat_map(|site| {
            let others = site.nodes.iter().flat_map(|node| &node.peer.addresses);
            let addresses = site.addresses.iter().chain(others);
            let parsed = addresses.filter_map(|text| HostPort::parse(text, PORT_DEFAULT).ok());
            parsed.map(|address| {
                (
                    address.to_string().into_bytes(),
                    site.name.clone().into_bytes(),
                )
            })
        });
        Self(names.collect())
    }

    /// The text with `SITE:/EXPORT` in place of `godwit://ADDRESS/EXPORT`.
    pub(super) fn in_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.in_bytes(text.as_bytes())).into_owned()
    }

    fn in_bytes(&self, text: &[u8]) -> Vec<u8> {
        let mut named = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((first, others)) = rest.split_first() {
            match self.at_start(rest) {
                Some((name, after)) => {
                    named.extend_from_slice(name);
                    if after.first() == Some(&b'/') {
                        named.push(b':');
                    }
                    let is_memory = |name: &&&[u8]| after.get(1..).unwrap_or(b"").starts_with(name);
                    rest = match MEMORY.iter().find(is_memory) {
                        Some(_) => &after[1..],
                        None => after,
                    };
                }
                None => {
                    named.push(*first);
                    rest = others;
                }
            }
        }
        named
    }

    /// The site whose address begins the text, and the text behind the address.
    fn at_start<'a>(&self, text: &'a [u8]) -> Option<(&[u8], &'a [u8])> {
        let place = text.strip_prefix(SCHEME)?;
        self.0.iter().find_map(|(address, name)| {
            let after = place.strip_prefix(address.as_slice())?;
            let is_longer = after.first().is_some_and(u8::is_ascii_digit);
            (!is_longer).then_some((name.as_slice(), after))
        })
    }

    /// The same in an event.
    pub(super) fn name(&self, event: &mut Event) {
        match event {
            Event::Started(started) => {
                for place in &mut started.sources {
                    *place = self.in_bytes(place);
                }
                started.destination = self.in_bytes(&started.destination);
            }
            Event::Failed(failed) => {
                failed.path = self.in_bytes(&failed.path);
                failed.message = self.in_text(&failed.message);
            }
            // With several sources, the source comes first.
            Event::Item(item) => item.path = self.in_bytes(&item.path),
            Event::ConnectionLost(lost) => lost.why = self.in_text(&lost.why),
            Event::Error(ErrorEvent { message, .. }) | Event::Note { message } => {
                *message = self.in_text(message);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_address_are_named_by_their_sites() {
        let site = |name: &str, addresses: &[&str]| Site {
            name: name.to_owned(),
            addresses: addresses.iter().map(|&one| one.to_owned()).collect(),
            identity: String::new(),
            comment: String::new(),
            nodes: Vec::new(),
        };
        let names = SiteNames::of(&[
            site("siteB", &["127.0.0.1:2000", "b.example"]),
            site("siteC", &["127.0.0.1:20001", "[::1]:9"]),
        ]);
        for (text, named) in [
            ("godwit://127.0.0.1:2000/data/a", "siteB:/data/a"),
            (
                "no godwit://127.0.0.1:20001/x, godwit://b.example:7272/y",
                "no siteC:/x, siteB:/y",
            ),
            ("godwit://b.example:7272/null:", "siteB:null:"),
            ("godwit://[::1]:9 does not answer", "siteC does not answer"),
            ("godwit://127.0.0.1:30/data", "godwit://127.0.0.1:30/data"),
            ("", ""),
        ] {
            assert_eq!(names.in_text(text), named);
        }
        let mut started = Event::Started(godwit_api::event::Started {
            sources: vec![b"godwit://b.example:7272/d/\xff".to_vec()],
            destination: b"/data/x".to_vec(),
            ..Default::default()
        });
        names.name(&mut started);
        let Event::Started(started) = started else {
            panic!("another event");
        };
        assert_eq!(started.sources, [b"siteB:/d/\xff".to_vec()]);
        assert_eq!(started.destination, b"/data/x");
    }

    #[test]
    fn a_note_of_a_damaged_journal_names_the_home_by_its_variable() {
        let mut note = Event::Note {
            message: "journal /data/journals/x.journal: cut".to_owned(),
        };
        hide_home(Path::new("/data/jobs"), &mut note);
        let Event::Note { message } = note else {
            panic!("another event");
        };
        assert_eq!(message, "journal GODWIT_HOME/journals/x.journal: cut");
    }

    #[test]
    fn a_failure_names_the_home_by_its_variable_and_exports_as_they_are() {
        let jobs = Path::new("/data/jobs");
        for (text, left) in [
            ("/data/journals: no space", "GODWIT_HOME/journals: no space"),
            (
                "/data/jobs/x/manifest: no",
                "GODWIT_HOME/jobs/x/manifest: no",
            ),
            // An export of that name.
            ("/data/f: does not exist", "/data/f: does not exist"),
        ] {
            assert_eq!(without_home(jobs, text), left);
        }
        assert_eq!(without_home(Path::new("/jobs"), "/jobs: no"), "/jobs: no");
    }
}
