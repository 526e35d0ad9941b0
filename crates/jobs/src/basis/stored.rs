//! The description of a job as stored in the state: of a user's job, or of a job for another node.
//! Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use godwit_api::ask::Peer;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{Agreed, LEVEL_ROLES, LEVEL_SITES, Reader, Role, Site};
use serde::{Deserialize, Serialize};

use crate::basis::error::JobsError;

/// A description that was read.
pub(crate) struct Stored {
    pub(crate) new: NewJob,
    /// The node for which the job runs, if that is another one.
    pub(crate) guest: Option<Guest>,
    /// The role in which a user's job was submitted. A job of an older version has none.
    pub(crate) role: Option<Role>,
    /// The identities that the sites of a user's job had when it was submitted, by their names. A job of an older version has none.
    sites: BTreeMap<String, String>,
    /// The identities of the independent nodes of these sites.
    nodes: BTreeMap<String, BTreeSet<String>>,
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

/// A user's job, with its role and the identities of its sites.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    new: NewJob,
    sites: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    nodes: BTreeMap<String, BTreeSet<String>>,
}

/// The role alone, which is read for each job of a list.
#[derive(Deserialize)]
struct OwnRole {
    role: Option<Role>,
}

impl Stored {
    /// A job that runs for another node.
    pub(crate) const fn for_guest(new: NewJob, guest: Guest) -> Self {
        Self {
            new,
            guest: Some(guest),
            role: None,
            sites: BTreeMap::new(),
            nodes: BTreeMap::new(),
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
            serde_json::from_str(text).map(|new| Own {
                role: None,
                new,
                sites: BTreeMap::new(),
                nodes: BTreeMap::new(),
            })
        });
        match read {
            Ok(Own {
                role,
                new,
                sites,
                nodes,
            }) => Ok(Self {
                new,
                guest: None,
                role,
                sites,
                nodes,
            }),
            Err(error) => Err(JobsError::invalid(
                FailureCode::Invalid,
                format!("the stored description of the job cannot be read: {error}"),
            )),
        }
    }

    /// The role in which a job was submitted; None for a job of an older version, and for one of another node.
    ///
    /// # Errors
    /// There is no such job, or the state cannot be read.
    pub(crate) fn role_of(reader: &Reader, id: &str) -> Result<Option<Role>, JobsError> {
        let spec = reader.job_spec(id)?;
        let spec = spec.ok_or_else(|| JobsError::NoJob(id.to_owned()))?;
        let read: Option<OwnRole> = serde_json::from_str(&spec).ok();
        Ok(read.and_then(|read| read.role))
    }

    /// The site that has this name in the job; None if the name is not known.
    ///
    /// # Errors
    /// The name belongs to another identity than at the submission, or has an independent node more. Or the state cannot be read.
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
            _ => {
                let added = site.as_ref().and_then(|site| self.added(site));
                added.map_or(Ok(site.clone()), Err)
            }
        }
    }

    /// Whether a site had independent nodes when the job was submitted.
    pub(crate) fn had_independent(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|nodes| !nodes.is_empty())
    }

    /// A node that the job could not mean: the operator named it with the site after the submission.
    fn added(&self, site: &Site) -> Option<JobsError> {
        let meant = self.nodes.get(&site.name)?;
        let mut named = site.independent();
        let added = named.find(|node| !meant.contains(&node.peer.identity))?;
        Some(JobsError::invalid(
            FailureCode::SiteChanged,
            format!(
                "site {} has a node that it did not have when the job was submitted ({}); if the change is right, submit the job again",
                site.name, added.peer.identity
            ),
        ))
    }

    /// The stored text of a user's job: its role and the identities of its sites stand beside it, where all nodes of the cluster read them.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn text_of(
        reader: &Reader,
        new: &NewJob,
        role: Option<Role>,
        (sources, destination): &(Vec<Place>, Place),
    ) -> Result<String, JobsError> {
        let level = Agreed(reader).level()?;
        let role = role.filter(|_| level >= LEVEL_ROLES);
        let (mut sites, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        for place in sources.iter().chain([destination]) {
            if place.is_here() || sites.contains_key(&place.site) {
                continue;
            }
            if let Some(site) = reader.object::<Site>(&place.site)? {
                if level >= LEVEL_ROLES {
                    let named = site.independent().map(|node| node.peer.identity.clone());
                    nodes.insert(site.name.clone(), named.collect());
                }
                sites.insert(site.name, site.identity);
            }
        }
        let is_plain = (sites.is_empty() && role.is_none()) || level < LEVEL_SITES;
        let text = match is_plain {
            true => serde_json::to_string(new),
            false => serde_json::to_string(&Own {
                role,
                new: new.clone(),
                sites,
                nodes,
            }),
        };
        text.map_err(|error| unwritten(&error))
    }

    /// The other end of a job for another node, if that end has this name.
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
    use godwit_state::{Actor, Change, Command, Op, SiteNode, Store, Timestamp};

    use super::*;

    #[test]
    fn the_kinds_of_descriptions_are_distinguished() {
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
            role: Some(Role::Operator),
            new: read.new.clone(),
            sites: BTreeMap::from([("b".to_owned(), "gw1-b".to_owned())]),
            nodes: BTreeMap::new(),
        };
        let text = serde_json::to_string(&own).expect("text");
        let again = Stored::parse(&text).expect("a description");
        assert_eq!((again.new, again.guest), (read.new, None));
        assert_eq!(again.role, Some(Role::Operator));
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
        let places = crate::basis::spec::places(&new).expect("places");
        let text_now =
            || Stored::text_of(&reader, &new, Some(Role::Operator), &places).expect("text");
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

    #[test]
    fn a_job_goes_to_no_node_that_was_named_with_its_site_later() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(&directory.path().join("state.db")).expect("open");
        let mut index = 0;
        let mut op = |op| {
            index += 1;
            let command = Command::new(Timestamp(0), Actor::node("node1"), op);
            let done = store.apply(index, &command).expect("applied");
            done.expect("taken");
        };
        op(Op::Level(LEVEL_ROLES));
        let reader = Reader::new(directory.path().join("state.db"));
        let site = |nodes: &[&str]| {
            let named = |name: &&str| SiteNode {
                peer: Peer {
                    name: (*name).to_owned(),
                    identity: format!("gw1-{name}"),
                    addresses: vec!["192.0.2.2".to_owned()],
                },
                named: None,
                independent: true,
            };
            Op::Site(Change::Put(Site {
                name: "b".to_owned(),
                addresses: vec!["192.0.2.1".to_owned()],
                identity: "gw1-b".to_owned(),
                comment: String::new(),
                nodes: nodes.iter().map(named).collect(),
            }))
        };
        op(site(&["c", "d"]));
        let text = r#"{"sources":["here:/a"],"destination":"b:/c"}"#;
        let new = Stored::parse(text).expect("a description").new;
        let places = crate::basis::spec::places(&new).expect("places");
        let role = Some(Role::Operator);
        let stored = Stored::text_of(&reader, &new, role, &places).expect("text");
        let stored = Stored::parse(&stored).expect("a description");
        assert_eq!(stored.role, role);
        assert!(stored.site(&reader, "b").expect("the same").is_some());
        op(site(&["d"]));
        assert!(stored.site(&reader, "b").expect("a node less").is_some());
        op(site(&["d", "e"]));
        let said = stored.site(&reader, "b").expect_err("a node more");
        assert!(said.to_string().contains("gw1-e"), "{said}");
        // A site without such nodes gets none later.
        op(site(&[]));
        let stored = Stored::text_of(&reader, &new, role, &places).expect("text");
        let stored = Stored::parse(&stored).expect("a description");
        op(site(&["c"]));
        assert!(stored.site(&reader, "b").is_err());
    }
}
