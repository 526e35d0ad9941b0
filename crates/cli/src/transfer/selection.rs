//! From settings to what is meant of the sources: rules and moments read, patterns prepared, the list opened.
//! Looks at no source.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::endpoint::Endpoint;
use godwit_api::settings::{ListPlace, RuleSource, RuleText, SelectionSettings, When};
use godwit_api::time::Moment;
use godwit_engine::names::{LineNames, ListBytes, Names};
use godwit_engine::select::{Select, parse_rule, parse_rules};
use godwit_proto::agent::{Errand, ListForm};
use godwit_proto::limits::RULES_MAX;
use godwit_proto::{Moment as WireMoment, Rule, Selection};

use super::list::ListInput;
use super::memory_bytes;
use crate::exit::Failure;
use crate::home::Home;

/// Longest file of rules that is read: more than all rules together may have.
const RULE_FILE_BYTES_MAX: u64 = 64 << 20;

/// What is meant of the sources.
pub(super) struct Chosen {
    /// As the other end is told; `None` if everything is meant.
    pub(super) wire: Option<Selection>,
    /// As this end uses it.
    pub(super) select: Arc<Select>,
    list: Option<(Arc<dyn ListBytes>, bool)>,
}

impl Chosen {
    /// Reads and opens what the settings name.
    pub(super) fn of(settings: &SelectionSettings, home: &Home) -> Result<Self, Failure> {
        let selection = Selection {
            rules: rules(&settings.rules, settings.from0)?,
            bytes_min: settings.min_size.unwrap_or(0),
            bytes_max: settings.max_size,
            newer: settings.newer.as_ref().map(moment).transpose()?,
            older: settings.older.as_ref().map(moment).transpose()?,
            listed: settings.files_from.is_some(),
            // Without a list it says what is done anyway, and people type -r.
            recursive: settings.recursive && settings.files_from.is_some(),
        };
        let select = Arc::new(Select::new(&selection).map_err(Failure::usage)?);
        let list = match &settings.files_from {
            None => None,
            Some(place) => {
                let list: Arc<dyn ListBytes> = Arc::new(open_list(place, home)?);
                Some((list, settings.from0))
            }
        };
        let wire = (selection != Selection::default()).then_some(selection);
        Ok(Self { wire, select, list })
    }

    /// Refuses a list for anything but one source, and that no stream.
    pub(super) fn suits(self, sources: &[Endpoint]) -> Result<Self, Failure> {
        if self.is_listed()
            && (sources.len() != 1
                || memory_bytes(sources).is_some()
                || sources.contains(&Endpoint::Stdio))
        {
            return Err(Failure::usage(
                "--files-from goes with one source, the directory that the names are relative to",
            ));
        }
        Ok(self)
    }

    /// Whether a list says what is meant.
    pub(super) fn is_listed(&self) -> bool {
        self.list.is_some()
    }

    /// The names of the list, from its beginning.
    pub(super) fn names(&self) -> Option<Box<dyn Names>> {
        let (list, from0) = self.list.as_ref()?;
        Some(Box::new(LineNames::new(Arc::clone(list), *from0)))
    }

    /// What another godwit means, whose list is read here from what it sends.
    pub(super) fn told(errand: &Errand, list: Option<Arc<dyn ListBytes>>) -> Result<Self, Failure> {
        let select = Select::of(errand.selection.as_ref()).map_err(Failure::failed)?;
        let from0 = errand.list_form() == ListForm::ZEROS;
        Ok(Self {
            wire: errand.selection.clone(),
            select,
            list: list.map(|list| (list, from0)),
        })
    }

    /// The list as it is, and its form.
    pub(super) fn list(&self) -> Option<(Arc<dyn ListBytes>, ListForm)> {
        let (list, from0) = self.list.as_ref()?;
        let form = if *from0 {
            ListForm::ZEROS
        } else {
            ListForm::LINES
        };
        Some((Arc::clone(list), form))
    }
}

fn rules(sources: &[RuleSource], from0: bool) -> Result<Vec<Rule>, Failure> {
    let mut rules = Vec::new();
    for source in sources {
        let flag = if source.include { "include" } else { "exclude" };
        match &source.from {
            RuleText::Given(text) => {
                let rule = parse_rule(text.as_encoded_bytes(), source.include)
                    .map_err(|error| Failure::usage(format!("--{flag}: {error}")))?;
                rules.push(rule);
            }
            RuleText::File(path) => {
                let content = read_rules(path).map_err(|error| {
                    Failure::usage(format!("--{flag}-from {}: {error}", path.display()))
                })?;
                let read =
                    parse_rules(&content, source.include, from0).map_err(|(line, error)| {
                        Failure::usage(format!("{}: line {line}: {error}", path.display()))
                    })?;
                rules.extend(read);
            }
        }
        if rules.len() > RULES_MAX {
            return Err(Failure::usage(format!(
                "there are more than {RULES_MAX} patterns to include and exclude; to name many entries use --files-from"
            )));
        }
    }
    Ok(rules)
}

fn read_rules(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    let read = std::fs::File::open(path)?
        .take(RULE_FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if read as u64 > RULE_FILE_BYTES_MAX {
        return Err(std::io::Error::other(
            "this is too large for a file of patterns",
        ));
    }
    Ok(content)
}

fn open_list(place: &ListPlace, home: &Home) -> Result<ListInput, Failure> {
    let spill = home.spill()?;
    match place {
        ListPlace::Input => ListInput::standard(&spill)
            .map_err(|error| Failure::usage(format!("--files-from -: standard input: {error}"))),
        ListPlace::File(path) => ListInput::open(path, &spill)
            .map_err(|error| Failure::usage(format!("--files-from {}: {error}", path.display()))),
    }
}

fn moment(when: &When) -> Result<WireMoment, Failure> {
    let moment = match when {
        When::At(moment) => *moment,
        When::Ago(duration) => SystemTime::now().checked_sub(*duration).map_or(
            Moment {
                seconds: 0,
                nanoseconds: 0,
            },
            since_1970,
        ),
        When::File(path) => {
            let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
            let modified = modified.map_err(|error| {
                Failure::usage(format!(
                    "{}: {error}; --newer and --older take a time, as 2026-01-31 or 2d, or a file that is there",
                    path.display()
                ))
            })?;
            since_1970(modified)
        }
    };
    Ok(WireMoment {
        seconds: moment.seconds,
        nanoseconds: moment.nanoseconds,
    })
}

fn since_1970(time: SystemTime) -> Moment {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Moment {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => Moment {
                    seconds: -seconds,
                    nanoseconds: 0,
                },
                nanoseconds => Moment {
                    seconds: -seconds - 1,
                    nanoseconds: 1_000_000_000 - nanoseconds,
                },
            }
        }
    }
}
