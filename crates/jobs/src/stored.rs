//! The description of a job as the state keeps it: a user's, or that of a job that runs for another node.
//! Decides nothing.

use godwit_api::ask::Peer;
use godwit_api::rest::NewJob;
use godwit_state::Site;
use serde::{Deserialize, Serialize};

use crate::error::JobsError;

/// A description that was read.
pub(crate) struct Stored {
    pub(crate) new: NewJob,
    /// For whom the job runs, if that is another node.
    pub(crate) guest: Option<Guest>,
}

/// A job that runs for another node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guest {
    /// Identity of the node that asked for it.
    pub(crate) asker: String,
    /// The other end, as that node named it; None where both ends are here.
    pub(crate) other: Option<Peer>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Form {
    new: NewJob,
    guest: Guest,
}

impl Stored {
    /// Reads what the state keeps.
    pub(crate) fn parse(text: &str) -> Result<Self, JobsError> {
        if let Ok(Form { new, guest }) = serde_json::from_str(text) {
            return Ok(Self {
                new,
                guest: Some(guest),
            });
        }
        match serde_json::from_str(text) {
            Ok(new) => Ok(Self { new, guest: None }),
            Err(error) => Err(JobsError::invalid(
                "invalid",
                format!("the stored description of the job cannot be read: {error}"),
            )),
        }
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

    /// What the state keeps of a job for another node.
    pub(crate) fn text_for(new: NewJob, guest: Guest) -> Result<String, JobsError> {
        serde_json::to_string(&Form { new, guest }).map_err(|error| {
            JobsError::invalid(
                "invalid",
                format!("the job cannot be written down: {error}"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_descriptions_are_told_apart() {
        let text = r#"{"sources":["here:/a"],"destination":"b:/c"}"#;
        let own = Stored::parse(text).expect("a description");
        assert_eq!(own.guest, None);
        let guest = Guest {
            asker: "gw1-a".to_owned(),
            other: None,
        };
        let text = Stored::text_for(own.new.clone(), guest.clone()).expect("text");
        let read = Stored::parse(&text).expect("a description");
        assert_eq!((read.new, read.guest), (own.new, Some(guest)));
        assert!(Stored::parse("{}").is_err());
    }
}
