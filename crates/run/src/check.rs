//! Refuses settings and endpoints that contradict each other, before anything is opened. Uses no file and
//! no machine.

use godwit_api::endpoint::{Endpoint, NodePlace};
use godwit_api::failure::Failure;
use godwit_api::job::JobSpec;
use godwit_api::settings::{ComparisonSettings, CpSettings, Judge, Order};
use godwit_proto::limits::SOURCES_MAX;

use crate::route;
use crate::transfer::work;

/// A job whose parts fit together.
pub(crate) struct Checked {
    pub(crate) settings: CpSettings,
    pub(crate) sources: Vec<Endpoint>,
    pub(crate) destination: Endpoint,
}

/// Refuses a contradictory transfer.
pub(crate) fn check_transfer(spec: &JobSpec) -> Result<Checked, Failure> {
    let settings = spec.copy_settings().map_err(Failure::usage)?;
    let region = spec
        .member
        .as_ref()
        .and_then(|member| member.region.as_ref());
    // The list of a region names all entries that are examined.
    let is_listed = region.is_none()
        && spec
            .selection
            .as_ref()
            .is_some_and(|selection| selection.list.is_some());
    let (sources, destination) = (spec.sources.clone(), spec.destination.clone());
    check(&settings, is_listed, &sources, &destination)?;
    work::check(spec, &settings, &sources, &destination)?;
    Ok(Checked {
        settings,
        sources,
        destination,
    })
}

/// Refuses a copy or synchronisation with contradictory settings or ends.
///
/// # Errors
/// Describes the contradiction.
pub fn check(
    settings: &CpSettings,
    is_listed: bool,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<(), Failure> {
    let comparison = &settings.comparison;
    if comparison.contradicts {
        return Err(Failure::usage(
            "--checksum and --size-only contradict each other: give one of them",
        ));
    }
    if comparison.delete && is_listed {
        return Err(Failure::usage(
            "--delete and --files-from contradict each other: --delete would delete all entries that the list does not name",
        ));
    }
    let replaces = [
        (comparison.delete || comparison.delete_before, "--delete"),
        (settings.force, "--force"),
    ];
    if let Some((_, flag)) = replaces.iter().find(|(given, _)| *given)
        && comparison.no_replace
    {
        return Err(Failure::usage(format!(
            "{flag} and --no-replace contradict each other: give one of them"
        )));
    }
    if sources.is_empty() {
        return Err(Failure::usage("no source was named"));
    }
    if sources.len() > SOURCES_MAX {
        return Err(Failure::usage(format!(
            "{} sources: a transfer takes at most {SOURCES_MAX}; name a directory above them, or list them with --files-from",
            sources.len()
        )));
    }
    if comparison.dry_run && settings.reports.manifest.is_some() {
        return Err(Failure::usage(
            "a dry run delivers nothing, so there is no manifest to write: leave out --manifest",
        ));
    }
    if settings.reports.manifest.is_some()
        && let Some(flag) = leaves_unseen(comparison)
    {
        if flag == "--delete-before" {
            return Err(Failure::usage(
                "--delete-before scans the source twice, so it cannot write a manifest: leave out --manifest, or run godwit manifest at the source",
            ));
        }
        return Err(Failure::usage(format!(
            "{flag} keeps entries at the destination without comparing them with the source, so a manifest would list unchecked entries: leave out {flag} or --manifest, or run godwit manifest at the source"
        )));
    }
    if let Some(kinds) = &settings.reports.ascmhl {
        crate::seal::check_kinds(kinds)?;
        check_sealed(settings, sources, destination)?;
    }
    let is_pipe = |endpoint: &Endpoint| *endpoint == Endpoint::Stdio;
    if settings.order == Order::Random && (sources.iter().any(is_pipe) || is_pipe(destination)) {
        return Err(Failure::usage(
            "standard input and output are read and written in order, so the order cannot be random: give --order source",
        ));
    }
    let counterpart = comparison.counterpart;
    if counterpart && sources.len() > 1 {
        return Err(Failure::usage(
            "sync takes one source, because the destination becomes equal to it: sync each source separately, or use godwit cp to copy several into one directory",
        ));
    }
    if counterpart && (is_synthetic(sources) || is_synthetic(std::slice::from_ref(destination))) {
        return Err(Failure::usage(
            "sync compares files with files: mem:, null: and - are for godwit cp",
        ));
    }
    route::check(sources, destination).map_err(Failure::usage)
}

/// Refuses ASC MHL histories where there is no directory of this machine to seal, or where the copy may have unchecked files.
fn check_sealed(
    settings: &CpSettings,
    sources: &[Endpoint],
    destination: &Endpoint,
) -> Result<(), Failure> {
    if settings.reports.sign {
        return Err(Failure::usage(
            "--sign: an ASC MHL history has no signature; leave out --sign, or name a file with --manifest FILE",
        ));
    }
    if let Some(flag) = leaves_unseen(&settings.comparison)
        && flag != "--delete-before"
    {
        return Err(Failure::usage(format!(
            "{flag} keeps entries at the destination without comparing them with the source, so a history would list unchecked files: leave out {flag} or --manifest ascmhl"
        )));
    }
    if is_nameless(destination) || sources.iter().any(is_nameless) {
        return Err(Failure::usage(
            "--manifest ascmhl: only directories have an ASC MHL history; mem:, null: and - have none",
        ));
    }
    match destination {
        Endpoint::Local(_) => Ok(()),
        other => Err(Failure::usage(format!(
            "--manifest ascmhl: {other} is not on this machine, so its history cannot be written here; leave out --manifest ascmhl, and seal the copy on its machine with: godwit manifest DIR ascmhl"
        ))),
    }
}

/// The first given flag that counts an entry as done without checking whether the destination has the
/// same one.
fn leaves_unseen(comparison: &ComparisonSettings) -> Option<&'static str> {
    let given = [
        (comparison.existing, "--existing"),
        (comparison.ignore_existing, "--ignore-existing"),
        (comparison.update, "--update"),
        (comparison.judge == Judge::Size, "--size-only"),
        // --delete-before reads the source twice, so the manifest would list entries twice.
        (comparison.delete_before, "--delete-before"),
    ];
    given
        .iter()
        .find(|(given, _)| *given)
        .map(|(_, flag)| *flag)
}

fn is_synthetic(endpoints: &[Endpoint]) -> bool {
    endpoints.iter().any(is_nameless)
}

/// Whether an endpoint has no entry with a name.
fn is_nameless(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Memory { .. } | Endpoint::Null | Endpoint::Stdio => true,
        Endpoint::Remote(remote) => {
            matches!(remote.place, NodePlace::Memory { .. } | NodePlace::Null)
        }
        Endpoint::Local(_) | Endpoint::Ssh(_) => false,
    }
}
