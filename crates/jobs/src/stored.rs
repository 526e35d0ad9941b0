//! The description of a job as stored in the state: of a user's job, or of a job for another node.
//! Decides nothing.

use std::collections::BTreeMap;

use godwit_api::ask::Peer;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{Agreed, LEVEL_SITES, Reader, Site};
use serde::{Deserialize, Serialize};

use crate::error::JobsError;

/// A description that was read.
pub(crate) struct Stored {
    pub(crate) new: NewJob,
    /// The node for which the job runs, if that is another one.
    pub(crate) guest: Option<Guest>,
    /// The identities that the sites of a user's job had when it was submitted, by their names. A job of an older version has none.
    sites: BTreeMap<String, String>,
}

/// A job that runs for another node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guest {
    /// Identity of the node that asked for it.
    pub(crate) asker: String,
    /// The other end, as that node named it; None where both ends are here.
    pub(crate) other: Option<Peer>,
    /// The owner of the job there may list the destination; a node of an older version does not set it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub(crate) may_list: bool,
    /// The same of reading.
    #[serde(default, skip_serializing_if = "is_not")]
    pub(crate) may_read: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Form {
    new: NewJob,
    guest: Guest,
}

/// A user's job, with the identities of its sites.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Own {
    new: NewJob,
    sites: BTreeMap<String, String>,
}

impl Stored {
    /// A job that runs for another node.
    pub(crate) const fn for_guest(new: NewJob, guest: Guest) -> Self {
        Self {
            new,
            guest: Some(guest),
            sites: BTreeMap::new(),
        }
    }

    /// The description of a job.
    pub(crate) fn of(reader: &Reader, id: &str) -> Result<Self, JobsError> {
        let spec = reader.job_spec(id)?;
        Self::parse(&spec.ok_or_else(|| JobsError::NoJob(id.to_owned()))?)
    }

    /// Reads the stored text.
    pub(crate) fn parse(text: &str) -> Result<Self, JobsError> {
        if let Ok(Form { new, guest }) = serde_json::from_str(text) {
            return Ok(Self::for_guest(new, guest));
        }
        let read = serde_json::from_str(text);
        let read = read.or_else(|_| {
            let sites = BTreeMap::new();
            serde_json::from_str(text).map(|new| Own { new, sites })
        });
        match read {
            Ok(Own { new, sites }) => Ok(Self {
                new,
                guest: None,
                sites,
            }),
            Err(error) => Err(JobsError::invalid(
                FailureCode::Invalid,
                format!("the stored description of the job cannot be read: {error}"),
            )),
        }
    }

    /// The site that the job means by this name; None if the name is not known.
    ///
    /// # Errors
    /// The name belongs to another identity than at the submission, or the state cannot be read.
    pub(crate) fn site(&self, reader: &Reader, name: &str) -> Result<Option<Site>, JobsError> {
        if let Some(other) = self.other(name) {
            return Ok(Some(other));
        }
        let site = reader.object::<Site>(name)?;
        let meant = self.sites.get(name);
        match site.as_ref().zip(meant) {
            Some((site, meant)) if site.identity != *meant => Err(JobsError::invalid(
                FailureCode::SiteChanged,
                format!(
                    "the identity of site {name} has changed since the job was submitted ({} instead of {meant}); if the change is right, submit the job again",
                    site.identity
                ),
            )),
            _ => Ok(site),
        }
    }

    /// The stored text of a user's job: the identities of its sites stand beside it, where all nodes of the cluster read them.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn text_of(
        reader: &Reader,
        new: &NewJob,
        (sources, destination): &(Vec<Place>, Place),
    ) -> Result<String, JobsError> {
        let mut sites = BTreeMap::new();
        for place in sources.iter().chain([destination]) {
            if place.is_here() || sites.contains_key(&place.site) {
                continue;
            }
            if let Some(site) = reader.object::<Site>(&place.site)? {
                sites.insert(site.name, site.identity);
            }
        }
        let is_plain = sites.is_empty() || Agreed(reader).level()? < LEVEL_SITES;
        let text = match is_plain {
            true => serde_json::to_string(new),
            false => serde_json::to_string(&Own {
                new: new.clone(),
                sites,
            }),
        };
        text.map_err(|error| unwritten(&error))
    }

    /// The other end of a job for another node, if it is called so.
    pub(crate) fn other(&self, name: &str) -> Option<Site> {
        let other = self.guest.as_ref()?.other.as_ref()?;
        (other.name == name).then(|| Site {
            name: other.name.clone(),
            addresses: other.addresses.clone(),
            identity: other.identity.clone(),
            comment: String::new(),
            nodes: Vec::new(),
        })
    }

    /// The stored text of a job for another node.
    pub(crate) fn text_for(new: NewJob, guest: Guest) -> Result<String, JobsError> {
        serde_json::to_string(&Form { new, guest }).map_err(|error| unwritten(&error))
    }
}

fn unwritten(error: &serde_json::Error) -> JobsError {
    let what = format!("the job cannot be stored: {error}");
    JobsError::invalid(FailureCode::Invalid, what)
}

#[cfg(test)]
mod tests {
    use godwit_state::{Actor, Change, Command, Op, Store, Timestamp};

    use super::*;

    #[test]
    fn the_kinds_of_descriptions_are_told_apart() {
        let text = r#"{"sources":["here:/a"],"destination":"b:/c"}"#;
        let own = Stored::parse(text).expect("a description");
        assert_eq!(own.guest, None);
        let guest = Guest {
            asker: "gw1-a".to_owned(),
            other: None,
            may_list: true,
            may_read: false,
        };
        let text = Stored::text_for(own.new.clone(), guest.clone()).expect("text");
        let read = Stored::parse(&text).expect("a description");
        assert_eq!((&read.new, &read.guest), (&own.new, &Some(guest)));
        // Text of an older version: the owner's right to list is not known.
        let text = text.replace(r#","may_list":true"#, "");
        let read = Stored::parse(&text).expect("a description");
        assert!(!read.guest.expect("a guest").may_list, "{text}");
        let read = Stored::parse(&text).expect("a description");
        let own = Own {
            new: read.new.clone(),
            sites: BTreeMap::from([("b".to_owned(), "gw1-b".to_owned())]),
        };
        let text = serde_json::to_string(&own).expect("text");
        let again = Stored::parse(&text).expect("a description");
        assert_eq!((again.new, again.guest), (read.new, None));
        assert_eq!(again.sites, own.sites);
        assert!(Stored::parse("{}").is_err());
    }

    #[test]
    fn a_job_goes_to_the_identity_that_its_site_had() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(&directory.path().join("state.db")).expect("open");
        let mut index = 0;
        let mut op = |op| {
            index += 1;
            let command = Command::new(Timestamp(0), Actor::node("node1"), op);
            let done = store.apply(index, &command).expect("applied");
            done.expect("taken");
        };
        let reader = Reader::new(directory.path().join("state.db"));
        let site = |identity: &str| {
            Op::Site(Change::Put(Site {
                name: "b".to_owned(),
                addresses: vec!["192.0.2.1".to_owned()],
                identity: identity.to_owned(),
                comment: String::new(),
                nodes: Vec::new(),
            }))
        };
        op(site("gw1-b"));
        let text = r#"{"sources":["here:/a"],"destination":"b:/c"}"#;
        let new = Stored::parse(text).expect("a description").new;
        let places = crate::spec::places(&new).expect("places");
        let text_now = || Stored::text_of(&reader, &new, &places).expect("text");
        let plain = text_now();
        assert_eq!(plain, serde_json::to_string(&new).expect("text"), "level 1");
        op(Op::Level(LEVEL_SITES));
        let stored = Stored::parse(&text_now()).expect("a description");
        assert_eq!(stored.new, new);
        let identity = |stored: &Stored| {
            let site = stored.site(&reader, "b");
            site.map(|site| site.map(|site| site.identity))
        };
        assert_eq!(identity(&stored).expect("read").as_deref(), Some("gw1-b"));
        op(Op::Site(Change::Remove("b".to_owned())));
        assert_eq!(identity(&stored).expect("read"), None);
        op(site("gw1-c"));
        let said = identity(&stored).expect_err("another site").to_string();
        assert!(
            said.contains("the identity of site b has changed"),
            "{said}"
        );
        assert!(said.contains("gw1-c") && said.contains("gw1-b"), "{said}");
        // Nothing is known of a job of an older version.
        let before = Stored::parse(&plain).expect("a description");
        assert_eq!(identity(&before).expect("read").as_deref(), Some("gw1-c"));
        op(site("gw1-b"));
        assert_eq!(identity(&stored).expect("read").as_deref(), Some("gw1-b"));
    }
}
