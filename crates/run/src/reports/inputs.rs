//! Refuses reports that would replace an input of the same run: lists, rules, files of a source. Does not write.
//!
//! Files are compared by device and inode.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use godwit_api::settings::{
    CpSettings, ListPlace, ReportSettings, RuleText, SelectionSettings, When,
};

use super::failed::reasons_path;
use super::show;
use super::target::{Led, through_links};
use crate::env::NameList;
use godwit_api::failure::Failure;

/// Identity of a file under any name: device and inode.
pub(super) type FileKey = (u64, u64);

/// The format of a report.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Manifest,
    Names,
    Reasons,
    Log,
}

struct Report {
    /// The flag by which the user requested the report.
    flag: &'static str,
    path: PathBuf,
    form: Form,
}

/// Refuses reports that would replace lists or rules, and two reports in one file. A list of failures may replace the list of names.
pub fn refuse_inputs(settings: &CpSettings) -> Result<(), Failure> {
    let inputs = inputs(&settings.selection);
    let reports = reports(&settings.reports);
    for (number, report) in reports.iter().enumerate() {
        let shown = show(&report.path);
        let flag = report.flag;
        let same = reports[..number]
            .iter()
            .find(|other| same_place(other, report));
        if let Some(other) = same {
            return Err(Failure::usage(format!(
                "{flag} {shown}: {} uses the same file; name a different file for each",
                other.flag
            )));
        }
        let Some(key) = key_at(&report.path) else {
            continue;
        };
        let is_loop = report.form == Form::Names && list_key(&settings.selection) == Some(key);
        if is_loop && !settings.selection.from0 {
            return Err(Failure::usage(format!(
                "{flag} {shown}: this file is the --files-from list, which has one name per line, but the new list has names that end in zero bytes: use a list of the new form with --from0, or name another file"
            )));
        }
        let input = inputs.iter().find(|(input, found)| {
            *found == key && !(*input == "--files-from" && report.form == Form::Names)
        });
        if let Some((input, _)) = input {
            return Err(Failure::usage(format!(
                "{flag} {shown}: {input} reads this file, and writing would destroy it; name another file"
            )));
        }
    }
    Ok(())
}

/// Refuses reports that would replace copied data: the source itself, or a file in it that is not an earlier report.
pub fn refuse_source(settings: &ReportSettings, source: &Path) -> Result<(), Failure> {
    for report in reports(settings) {
        refuse_in(report.flag, &report.path, report.form, source)?;
    }
    Ok(())
}

/// Refuses a manifest that would replace data of the tree that it describes.
pub fn refuse_manifest_in(path: &Path, source: &Path) -> Result<(), Failure> {
    refuse_in("", path, Form::Manifest, source)
}

/// Whether the file is the list of names of this run.
pub(super) fn is_list(path: &Path, list: &NameList) -> bool {
    let key = key_at(path);
    key.is_some() && key == list.file
}

/// Device and inode of the list that the settings name, if it is a regular file.
#[must_use]
pub fn file_key(selection: &SelectionSettings) -> Option<(u64, u64)> {
    list_key(selection)
}

fn refuse_in(flag: &str, path: &Path, form: Form, source: &Path) -> Result<(), Failure> {
    let (Ok(there), Ok(source_there)) = (path.canonicalize(), source.canonicalize()) else {
        return Ok(());
    };
    let is_earlier = || looks_like(&there, form).unwrap_or(false);
    if !there.is_file()
        || !there.starts_with(&source_there)
        || (there != source_there && is_earlier())
    {
        return Ok(());
    }
    let shown = show(path);
    Err(Failure::usage(format!(
        "{flag} {shown}: this file belongs to the source {}, and writing would destroy it; name another file",
        show(source)
    ).trim_start().to_owned()))
}

/// The reports that this run writes to regular files, because only those can lose contents.
fn reports(settings: &ReportSettings) -> Vec<Report> {
    let report = |flag, path: &PathBuf, form| Report {
        flag,
        path: path.clone(),
        form,
    };
    let mut reports = Vec::new();
    if let Some(path) = &settings.manifest {
        reports.push(report("--manifest", path, Form::Manifest));
    }
    if let Some(path) = &settings.failed {
        reports.push(report("--failed", path, Form::Names));
        reports.push(report("--failed", &reasons_path(path), Form::Reasons));
    }
    if let Some(path) = &settings.log_file {
        reports.push(report("--log-file", path, Form::Log));
    }
    reports.retain(|report| fs::metadata(&report.path).map_or(true, |there| there.is_file()));
    reports
}

fn same_place(one: &Report, other: &Report) -> bool {
    match (key_at(&one.path), key_at(&other.path)) {
        (None, None) => match (place_of(&one.path), place_of(&other.path)) {
            (Some(one), Some(other)) => one == other,
            _ => false,
        },
        (one, other) => one == other,
    }
}

/// The path of a file that does not exist yet.
pub(super) fn place_of(path: &Path) -> Option<PathBuf> {
    let Led::Place(place) = through_links(path) else {
        return None;
    };
    let parent = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Some(parent.canonicalize().ok()?.join(place.file_name()?))
}

fn inputs(selection: &SelectionSettings) -> Vec<(&'static str, FileKey)> {
    let mut inputs = Vec::new();
    let mut add = |flag, key: Option<FileKey>| inputs.extend(key.map(|key| (flag, key)));
    add("--files-from", list_key(selection));
    for rule in &selection.rules {
        let flag = if rule.include {
            "--include-from"
        } else {
            "--exclude-from"
        };
        if let RuleText::File(path) = &rule.from {
            add(flag, key_at(path));
        }
    }
    for (flag, moment) in [("--newer", &selection.newer), ("--older", &selection.older)] {
        if let Some(When::File(path)) = moment {
            add(flag, key_at(path));
        }
    }
    inputs
}

fn list_key(selection: &SelectionSettings) -> Option<FileKey> {
    match selection.files_from.as_ref()? {
        ListPlace::File(path) => key_at(path),
        ListPlace::Input => {
            let input = rustix::io::dup(rustix::stdio::stdin()).ok()?;
            key_of(&File::from(input).metadata().ok()?)
        }
    }
}

/// The key of an existing regular file.
fn key_at(path: &Path) -> Option<FileKey> {
    key_of(&fs::metadata(path).ok()?)
}

pub(super) fn key_of(there: &Metadata) -> Option<FileKey> {
    there.is_file().then(|| (there.dev(), there.ino()))
}

/// Whether a file may be a report of an earlier run. Such a file is replaced without asking.
fn looks_like(path: &Path, form: Form) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut start = Vec::new();
    io::Read::by_ref(&mut file)
        .take(64)
        .read_to_end(&mut start)?;
    let mut end = Vec::new();
    file.seek(io::SeekFrom::Start(bytes.saturating_sub(1)))?;
    file.take(1).read_to_end(&mut end)?;
    Ok(bytes == 0
        || match form {
            Form::Manifest => start.starts_with(b"#godwit-manifest\t"),
            // Each list of names has a file of reasons beside it. The check is needed because data may end in a zero byte too.
            Form::Names => {
                end == b"\0" && !start.starts_with(b"\0") && reasons_path(path).is_file()
            }
            Form::Reasons => end == b"\n",
            Form::Log => start.starts_with(b"{\"time\":\""),
        })
}
