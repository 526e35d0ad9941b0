//! Turns the stored description of a job into a specification for `run`: places become exports of this node and addresses of others.
//! Checks no access: the nodes that own the exports do.

use godwit_api::PORT_DEFAULT;
use godwit_api::endpoint::{Endpoint, NodePlace, Remote};
use godwit_api::failure::FailureCode;
use godwit_api::host::HostPort;
use godwit_api::job::{Imposed, JOB_VERSION, JobSpec, ListForm, Selection, Text};
use godwit_api::rest::{NewJob, Place};
use godwit_state::{SOURCES_MAX, SPEC_BYTES_MAX, Site};

use crate::basis::error::JobsError;
use crate::basis::sealing;
use crate::basis::stored::Stored;

/// Reads the stored description.
pub(crate) fn parse(spec: &str) -> Result<NewJob, JobsError> {
    Stored::parse(spec).map(|stored| stored.new)
}

/// A specification for `run`, and the sites of the job.
pub(crate) struct Prepared {
    pub(crate) spec: JobSpec,
    /// The names that the selection is restricted to, each with a zero byte behind it.
    pub(crate) list: Option<Vec<u8>>,
    pub(crate) sites: Vec<Site>,
}

/// Checks the settings of a job. Runs again before each attempt, because an older version checked no settings.
pub(crate) fn check_settings(new: &NewJob) -> Result<(), JobsError> {
    let checked = new.kind.check_settings(new.settings.keys());
    let checked = checked.map_err(|error| error.to_string());
    checked
        .and_then(|()| sealing::check_form(new))
        .map_err(|what| JobsError::invalid(FailureCode::Invalid, format!("settings: {what}")))
}

/// Checks whether a job may have this number of sources; the error proposes another solution.
///
/// # Errors
/// There are too many.
pub fn check_source_count(count: usize) -> Result<(), String> {
    if count <= SOURCES_MAX {
        return Ok(());
    }
    Err(format!(
        "{count} sources: a job takes at most {SOURCES_MAX}, because each node of the cluster stores the description; name a directory above the sources and choose entries with --include and --exclude, or submit several jobs (godwit cp takes 65535 sources)"
    ))
}

/// Whether a description is short enough to be kept.
pub(crate) fn check_length(new: &NewJob) -> Result<(), JobsError> {
    let bytes = serde_json::to_vec(new).map_or(0, |text| text.len());
    if bytes <= SPEC_BYTES_MAX {
        return Ok(());
    }
    Err(JobsError::invalid(
        FailureCode::Invalid,
        format!(
            "sources, rules, names and settings have {bytes} bytes together; a job can keep at most {SPEC_BYTES_MAX}: name a directory above the sources, or submit several jobs"
        ),
    ))
}

/// Reads the places of a description.
pub(crate) fn places(new: &NewJob) -> Result<(Vec<Place>, Place), JobsError> {
    let read = |field: &str, text: &str| {
        text.parse::<Place>()
            .map_err(|error| JobsError::invalid(FailureCode::Invalid, format!("{field}: {error}")))
    };
    let sources: Result<Vec<Place>, JobsError> = new
        .sources
        .iter()
        .map(|text| read("sources", text))
        .collect();
    let sources = sources?;
    let destination = read("destination", &new.destination)?;
    check_memory(&sources, &destination)?;
    let Some(first) = sources.first() else {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "sources: name at least one place",
        ));
    };
    if let Some(other) = sources.iter().find(|place| place.site != first.site) {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            format!(
                "sources: {first} and {other} are at different sites; submit one job for each site"
            ),
        ));
    }
    Ok((sources, destination))
}

/// Checks that memory is used only where allowed: `mem:SIZE` as the only source, `null:` as the destination.
fn check_memory(sources: &[Place], destination: &Place) -> Result<(), JobsError> {
    let gives = |place: &Place| place.memory_bytes().is_some();
    let what = match sources {
        _ if gives(destination) => {
            "destination: mem: can only be a source; null: discards all data"
        }
        _ if sources
            .iter()
            .any(|place| place.is_memory() && !gives(place)) =>
        {
            "sources: null: can only be a destination; mem:SIZE provides bytes"
        }
        [_, _, ..] if sources.iter().any(gives) => {
            "sources: mem: cannot be mixed with other sources"
        }
        _ => return Ok(()),
    };
    Err(JobsError::invalid(FailureCode::Invalid, what))
}

/// Finds the addresses of the sites, and puts the description together.
pub(crate) fn prepare(
    new: &NewJob,
    find: &dyn Fn(&str) -> Result<Option<Site>, JobsError>,
) -> Result<Prepared, JobsError> {
    check_settings(new)?;
    let (sources, destination) = places(new)?;
    let mut sites = Vec::new();
    let mut endpoint = |place: &Place| -> Result<Endpoint, JobsError> {
        if place.is_here() {
            return Ok(here(place));
        }
        let site = find(&place.site)?.ok_or_else(|| unknown_site(&place.site))?;
        let remote = remote(place, &site)?;
        if !sites.contains(&site) {
            sites.push(site);
        }
        Ok(Endpoint::Remote(remote))
    };
    let sources: Result<Vec<Endpoint>, JobsError> = sources.iter().map(&mut endpoint).collect();
    let spec = JobSpec {
        version: JOB_VERSION,
        kind: new.kind,
        sources: sources?,
        destination: endpoint(&destination)?,
        settings: sealing::without(&new.settings),
        selection: selection(new),
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    };
    let list = (!new.list.is_empty()).then(|| {
        let ended = |name: &Text| [name.0.as_slice(), &[0]].concat();
        new.list.iter().flat_map(ended).collect()
    });
    Ok(Prepared { spec, list, sites })
}

/// The selection of the sources. The names of a list are passed separately.
pub(crate) fn selection(new: &NewJob) -> Option<Selection> {
    if new.list.is_empty() {
        return new.selection.clone();
    }
    Some(Selection {
        list: Some(ListForm::Zeros),
        ..new.selection.clone().unwrap_or_default()
    })
}

/// Whether the list of a job makes sense.
pub(crate) fn check_list(new: &NewJob) -> Result<(), JobsError> {
    let refused = |what: &str| Err(JobsError::invalid(FailureCode::Invalid, what));
    let selection = new.selection.as_ref();
    if selection.is_some_and(|selection| selection.list.is_some()) {
        return refused("selection.list: name the entries in the field `list` of the job");
    }
    if new.list.is_empty() {
        return match selection.is_some_and(|selection| selection.recursive) {
            true => refused(
                "selection.recursive: only for jobs with the field `list`; without a list, directories are copied with all their contents",
            ),
            false => Ok(()),
        };
    }
    if new.sources.len() != 1 {
        return refused(
            "list: needs exactly one source, the directory to which the names are relative",
        );
    }
    let is_odd = |name: &Text| name.0.is_empty() || name.0.contains(&0);
    match new.list.iter().any(is_odd) {
        true => refused("list: names must not be empty or contain a zero byte"),
        false => Ok(()),
    }
}

/// The error for a site that is not known.
pub(crate) fn unknown_site(name: &str) -> JobsError {
    JobsError::invalid(
        FailureCode::UnknownSite,
        format!(
            "this node knows no site {name:?}; an admin adds it with: godwit site add {name} HOST --identity IDENTITY"
        ),
    )
}

/// A place of this node: the runner finds its export by the first name of the path.
pub(crate) fn here(place: &Place) -> Endpoint {
    match place.memory_bytes() {
        Some(bytes) => Endpoint::Memory { bytes },
        None if place.is_memory() => Endpoint::Null,
        None => Endpoint::Local(place.below_site().into()),
    }
}

/// The place at the site's first address.
fn remote(place: &Place, site: &Site) -> Result<Remote, JobsError> {
    let address = site.addresses.first().ok_or_else(|| {
        JobsError::invalid(
            FailureCode::UnknownSite,
            format!("the site {:?} has no address", site.name),
        )
    })?;
    let node = HostPort::parse(address, PORT_DEFAULT).map_err(|error| {
        JobsError::invalid(
            FailureCode::UnknownSite,
            format!(
                "the site {:?} has the address {address:?}: {error}",
                site.name
            ),
        )
    })?;
    let named = match place.memory_bytes() {
        Some(bytes) => NodePlace::Memory { bytes },
        None if place.is_memory() => NodePlace::Null,
        None => NodePlace::Export {
            name: place.export.clone(),
            path: place.path.clone(),
            directory: place.directory,
            contents: place.contents,
        },
    };
    Ok(Remote { node, place: named })
}
