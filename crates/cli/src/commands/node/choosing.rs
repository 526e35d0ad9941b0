//! The selection of entries in a job: the same flags as in `godwit cp`, and a list of names that becomes a part of the job.
//! Checks no pattern, and looks at no source.

use std::fs::File;
use std::io::{self, Read};

use clap::ArgMatches;
use godwit_api::job::{Selection, Text};
use godwit_api::settings::{ConfigFile, ListPlace, Scope, SelectionSettings, When, resolve};
use godwit_run::read_selection;
use godwit_state::SPEC_BYTES_MAX;

use crate::args;
use crate::exit::Failure;

/// The selection of a job: rules and bounds, and names.
type Choice = (Option<Selection>, Vec<Text>);

/// Reads the flags, and the files that they name. The environment and the settings file of `godwit cp` do not apply to jobs.
pub(super) fn read(matches: &ArgMatches) -> Result<Choice, Failure> {
    choice(&settings(matches)?)
}

/// The same for a schedule or a flow, which accept only dates, because an age would count from the start of each job.
pub(super) fn read_lasting(matches: &ArgMatches) -> Result<Choice, Failure> {
    let settings = settings(matches)?;
    for (name, when) in [("newer", &settings.newer), ("older", &settings.older)] {
        if matches!(when, Some(When::Ago(_))) {
            return Err(Failure::usage(format!(
                "--{name}: a schedule or a flow cannot use an age, because the age would count from now and not from the start of each job; write a date"
            )));
        }
    }
    choice(&settings)
}

fn settings(matches: &ArgMatches) -> Result<SelectionSettings, Failure> {
    let typed = args::typed_of(args::choosing(), matches);
    let values = resolve(Scope::Cp, &typed, &|_| None, &ConfigFile::default())?
        .with_order(args::order_of(args::choosing(), matches));
    Ok(SelectionSettings::from_values(&values)?)
}

fn choice(settings: &SelectionSettings) -> Result<Choice, Failure> {
    let Some(place) = &settings.files_from else {
        return Ok((read_selection(settings)?, Vec::new()));
    };
    let list = names(place, settings.from0)?;
    let mut selection = read_selection(settings)?.unwrap_or_default();
    // The job itself has the names.
    selection.list = None;
    Ok((
        (selection != Selection::default()).then_some(selection),
        list,
    ))
}

/// The names of a list, as `godwit cp` reads it: empty ones are skipped.
fn names(place: &ListPlace, from0: bool) -> Result<Vec<Text>, Failure> {
    let (shown, content) = match place {
        ListPlace::Input => ("-".to_owned(), content(io::stdin().lock())),
        ListPlace::File(path) => {
            let content = File::open(path).and_then(content);
            (path.display().to_string(), content)
        }
    };
    let refused = |why: &str| Failure::usage(format!("--files-from {shown}: {why}"));
    let content = content.map_err(|error| refused(&error.to_string()))?;
    if content.len() > SPEC_BYTES_MAX {
        return Err(refused(&format!(
            "the list is too long: a job can keep at most {SPEC_BYTES_MAX} bytes. Use godwit cp, or name directories with --recursive"
        )));
    }
    let end = if from0 { 0 } else { b'\n' };
    let names = content.split(|byte| *byte == end);
    let names: Vec<Text> = names
        .filter(|name| !name.is_empty())
        .map(|name| Text(name.to_vec()))
        .collect();
    if names.is_empty() {
        return Err(refused("the list is empty, so the job would copy nothing"));
    }
    Ok(names)
}

/// Reads at most one byte more than a job keeps.
fn content(input: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    input
        .take(SPEC_BYTES_MAX as u64 + 1)
        .read_to_end(&mut content)?;
    Ok(content)
}
