//! Owns what an agent is told that is to be the client of another one.
//! Does not know how its settings are read. `docs/wire.md`, "Over ssh".

use prost::Message;

use super::{AgentMessage, check_addresses, check_words};
use crate::control::Selection;
use crate::error::WireError;
use crate::limits::PATH_BYTES_MAX;

/// Most settings of an errand, and sources.
const PARTS_MAX: usize = 4096;

/// The longest part in which a list of names follows an errand.
pub const LIST_PART_BYTES_MAX: usize = 64 << 10;

/// How the names of a list are told apart. Ones that are not known here are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListForm(pub u32);

impl ListForm {
    /// There is no list.
    pub const NONE: Self = Self(0);
    /// One a line.
    pub const LINES: Self = Self(1);
    /// A zero byte behind each.
    pub const ZEROS: Self = Self(2);
}

/// What an agent is to do as the client of another one.
#[derive(Clone, PartialEq, Message)]
pub struct Errand {
    /// Settings of the transfer, `NAME=VALUE` each.
    #[prost(string, repeated, tag = "1")]
    pub settings: Vec<String>,
    /// Paths on the agent's machine.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub sources: Vec<Vec<u8>>,
    /// The path on the other one.
    #[prost(bytes = "vec", tag = "3")]
    pub destination: Vec<u8>,
    /// The other machine, for messages.
    #[prost(string, tag = "4")]
    pub peer: String,
    /// The identity of the other agent.
    #[prost(string, tag = "5")]
    pub identity: String,
    /// Where it listens, `IP:PORT` each.
    #[prost(string, repeated, tag = "6")]
    pub addresses: Vec<String>,
    /// Who sends, in the key of the journal.
    #[prost(string, tag = "7")]
    pub sender: String,
    /// Which entries below the sources are meant.
    #[prost(message, optional, tag = "8")]
    pub selection: Option<Selection>,
    /// A [`ListForm`]: the list that `selection` speaks of follows this message.
    #[prost(uint32, tag = "9")]
    pub list: u32,
    /// The destination is to become the counterpart of the one source; settings are those of `godwit sync`.
    #[prost(bool, tag = "10")]
    pub sync: bool,
    /// Complete entries are told, as lines of a manifest.
    #[prost(bool, tag = "11")]
    pub entries_wanted: bool,
    /// Failed entries are told by their names below the source, with side and code.
    #[prost(bool, tag = "12")]
    pub faults_wanted: bool,
    /// Counters of both ends are told at the end.
    #[prost(bool, tag = "13")]
    pub stats_wanted: bool,
}

impl Errand {
    /// See [`ListForm`].
    pub fn list_form(&self) -> ListForm {
        ListForm(self.list)
    }

    /// Of [`capability`](super::capability), what an agent must have that shall not ignore a part of this.
    pub fn capabilities_needed(&self) -> u64 {
        let plain = self.selection.is_none()
            && !self.sync
            && !self.entries_wanted
            && !self.faults_wanted
            && !self.stats_wanted;
        if plain { 0 } else { super::capability::ERRAND }
    }
}

impl AgentMessage for Errand {
    const NAME: &'static str = "errand";

    fn validate(&self) -> Result<(), WireError> {
        check_words([&self.peer, &self.identity, &self.sender])?;
        check_addresses(&self.addresses)?;
        for count in [self.settings.len(), self.sources.len()] {
            if count > PARTS_MAX {
                return Err(WireError::too_long("errand", PARTS_MAX as u64));
            }
        }
        for path in self.sources.iter().chain([&self.destination]) {
            if path.len() > PATH_BYTES_MAX {
                return Err(WireError::too_long("path", PATH_BYTES_MAX as u64));
            }
            if path.contains(&0) {
                return Err(WireError::invalid("path", "contains NUL"));
            }
        }
        if self.list > ListForm::ZEROS.0 {
            return Err(WireError::Unknown {
                field: "form of a list",
                value: self.list.into(),
            });
        }
        let mut listed = false;
        if let Some(selection) = &self.selection {
            selection.validate(self.sources.len())?;
            listed = selection.listed;
        }
        if listed != (self.list_form() != ListForm::NONE) {
            return Err(WireError::Disagree {
                what: "selection and form of the list",
            });
        }
        if self.sync && self.sources.len() != 1 {
            return Err(WireError::invalid(
                "errand",
                "makes one place the counterpart of other than one source",
            ));
        }
        Ok(())
    }
}
