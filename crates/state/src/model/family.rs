//! Owns families of jobs: a parent, and a child for each destination, or for each source of a gather. An ordinary job has neither.
//! Derives no state; `apply` does.

use serde::{Deserialize, Serialize};

use super::{CommandError, NewJob, Object};

/// Prefix of the key of a relay: a job that brings data from a child to another child of the same parent. [`RelayKey`] follows.
pub const RELAY_KEY: &str = "relay:";

/// The key of a relay, without its prefix: the ids of the two children, and the number of a round, with colons between them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RelayKey<'a> {
    /// The child that gets the data.
    pub taker: &'a str,
    /// The child that has the data.
    pub giver: &'a str,
    /// The number of a round: it brings the files that are whole at a child whose copy is not complete. None for a relay of a complete copy.
    pub round: Option<u32>,
}

impl<'a> RelayKey<'a> {
    /// The meaning of a key; None if it is that of no relay.
    #[must_use]
    pub fn of(key: &'a str) -> Option<Self> {
        let (taker, rest) = key.strip_prefix(RELAY_KEY)?.split_once(':')?;
        let (giver, round) = match rest.split_once(':') {
            Some((giver, round)) => (giver, Some(round.parse().ok()?)),
            None => (rest, None),
        };
        (taker != giver).then_some(Self {
            taker,
            giver,
            round,
        })
    }

    /// The key.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            taker,
            giver,
            round,
        } = self;
        match round {
            Some(round) => format!("{RELAY_KEY}{taker}:{giver}:{round}"),
            None => format!("{RELAY_KEY}{taker}:{giver}"),
        }
    }

    /// The keys of all relays to a child: those from the first text on, and before the second one.
    pub(crate) fn range(taker: &str) -> [String; 2] {
        // The semicolon is next to the colon.
        [
            format!("{RELAY_KEY}{taker}:"),
            format!("{RELAY_KEY}{taker};"),
        ]
    }
}

/// A submitted job with several destinations, or one that gathers several sources.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewFamily {
    /// The job that no node runs; its state follows from its children.
    pub parent: NewJob,
    /// An ordinary job for each destination, or for each source.
    pub children: Vec<NewJob>,
}

/// The parent of a child.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// Id of the child.
    pub job: String,
    /// Id of the parent.
    pub parent: String,
}

impl Object for Child {
    const KIND: &'static str = "child";
    fn id(&self) -> String {
        self.job.clone()
    }
    fn lookup(&self) -> Option<String> {
        Some(self.parent.clone())
    }
    fn check(&self) -> Result<(), CommandError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_relay_names_its_ends_and_its_round() {
        let of = |key: &'static str| {
            let key = RelayKey::of(key)?;
            Some((key.taker, key.giver, key.round))
        };
        assert_eq!(of("relay:2:1"), Some(("2", "1", None)));
        assert_eq!(of("relay:2:1:7"), Some(("2", "1", Some(7))));
        for wrong in [
            "night",
            "relay:2",
            "relay:2:2",
            "relay:2:1:",
            "relay:2:1:x",
            "relay:2:1:7:8",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        for key in ["relay:2:1", "relay:2:1:7"] {
            assert_eq!(RelayKey::of(key).expect("a key").text(), key);
            let [first, end] = RelayKey::range("2");
            assert!(first.as_str() <= key && key < end.as_str());
        }
        let [_, end] = RelayKey::range("2");
        assert!("relay:20:1" < "relay:2:" && end.as_str() < "relay:3:");
    }
}
