//! The selected part of the sources, in the form for each end: prepared patterns and the list. Does not examine
//! sources or read files.

use std::sync::Arc;

use godwit_api::endpoint::Endpoint;
use godwit_api::failure::Failure;
use godwit_api::job::{self, ListForm};
use godwit_engine::names::{LineNames, ListBytes, Names};
use godwit_proto::limits::{PATTERN_BYTES_MAX, RULES_MAX};
use godwit_proto::{Moment, Rule, Selection};
use godwit_tree::select::{RuleError, Select};

use super::memory_bytes;
use crate::env::NameList;

/// The selected part of the sources.
pub(super) struct Chosen {
    /// In the form for the other end; `None` selects everything.
    pub(super) wire: Option<Selection>,
    /// In the form for this end.
    pub(super) select: Arc<Select>,
    list: Option<(Arc<dyn ListBytes>, ListForm)>,
    /// Items of the job select entries, like a list.
    has_items: bool,
}

impl Chosen {
    /// Prepares the selection of the job, including its `list`.
    pub(super) fn of(
        selection: Option<&job::Selection>,
        list: Option<&NameList>,
    ) -> Result<Self, Failure> {
        let wire = selection.map(wire_of).transpose()?;
        let select = Select::of(wire.as_ref()).map_err(Failure::usage)?;
        let form = selection.and_then(|selection| selection.list);
        let list = match (form, list) {
            (Some(form), Some(list)) => Some((Arc::clone(&list.bytes), form)),
            (None, _) => None,
            (Some(_), None) => {
                return Err(Failure::usage(
                    "the selection of this job needs a list of names, but the list is missing",
                ));
            }
        };
        Ok(Self {
            wire,
            select,
            list,
            has_items: false,
        })
    }

    /// Sets whether the job has items.
    pub(super) fn with_items(self, has_items: bool) -> Self {
        Self { has_items, ..self }
    }

    /// Refuses a list unless there is one source that is not a stream.
    pub(super) fn suits(self, sources: &[Endpoint]) -> Result<Self, Failure> {
        if self.is_listed()
            && (sources.len() != 1
                || memory_bytes(sources).is_some()
                || sources.contains(&Endpoint::Stdio))
        {
            return Err(Failure::usage(
                "--files-from needs exactly one source, the directory to which the names are relative",
            ));
        }
        Ok(self)
    }

    /// Whether a list, or the items of the job, select entries.
    pub(super) fn is_listed(&self) -> bool {
        self.list.is_some() || self.has_items
    }

    /// The names of the list, from its beginning.
    pub(super) fn names(&self) -> Option<Box<dyn Names>> {
        let (list, form) = self.list.as_ref()?;
        let zeros = *form == ListForm::Zeros;
        Some(Box::new(LineNames::new(Arc::clone(list), zeros)))
    }

    /// The raw list.
    pub(super) fn list(&self) -> Option<Arc<dyn ListBytes>> {
        self.list.as_ref().map(|(list, _)| Arc::clone(list))
    }
}

/// The selection for a walk on this machine.
pub(crate) fn select_of(selection: Option<&job::Selection>) -> Result<Arc<Select>, Failure> {
    let wire = selection.map(wire_of).transpose()?;
    Select::of(wire.as_ref()).map_err(Failure::usage)
}

/// Refuses a selection that no peer would accept.
fn wire_of(selection: &job::Selection) -> Result<Selection, Failure> {
    if selection.rules.len() > RULES_MAX {
        return Err(Failure::usage(format!(
            "more than {RULES_MAX} patterns to include and exclude; to name many entries use --files-from"
        )));
    }
    let is_long = |rule: &&job::Rule| rule.pattern.0.len() > PATTERN_BYTES_MAX;
    if let Some(rule) = selection.rules.iter().find(is_long) {
        let bytes = rule.pattern.0.len();
        return Err(Failure::usage(RuleError::TooLong(bytes)));
    }
    let moments = selection.newer.iter().chain(&selection.older);
    if let Some(odd) = moments
        .into_iter()
        .find(|when| when.nanoseconds >= 1_000_000_000)
    {
        return Err(Failure::usage(format!(
            "a time with {} nanoseconds, but a second has fewer",
            odd.nanoseconds
        )));
    }
    let moment = |when: job::When| Moment {
        seconds: when.seconds,
        nanoseconds: when.nanoseconds,
    };
    let rule = |rule: &job::Rule| Rule {
        include: rule.include,
        pattern: rule.pattern.0.clone(),
    };
    Ok(Selection {
        rules: selection.rules.iter().map(rule).collect(),
        bytes_min: selection.bytes_min.unwrap_or(0),
        bytes_max: selection.bytes_max,
        newer: selection.newer.map(moment),
        older: selection.older.map(moment),
        listed: selection.list.is_some(),
        recursive: selection.recursive,
        one_file_system: selection.one_file_system,
    })
}
