//! Finds the report files of this run that are inside copied or deleted trees. Does not write them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_tree::OwnFiles;
use godwit_tree::select::Select;

use super::inputs::{key_of, place_of};
use super::show;
use godwit_api::failure::Failure;

/// The files of some reports.
#[derive(Default)]
pub struct ReportFiles {
    reports: Vec<Report>,
    files: Arc<OwnFiles>,
}

struct Report {
    /// The name in the user's spelling.
    shown: String,
    places: Vec<PathBuf>,
    /// Numbers of the report's files.
    numbers: Vec<usize>,
}

impl ReportFiles {
    /// Finds the existing files of each report: its name in the user's spelling, and its current
    /// and future files.
    pub fn new(reports: impl IntoIterator<Item = (String, Vec<PathBuf>)>) -> Self {
        let mut keys = Vec::new();
        let mut own = Vec::new();
        for (shown, places) in reports {
            let before = keys.len();
            let there = places.iter().filter_map(|place| fs::metadata(place).ok());
            keys.extend(there.filter_map(|there| key_of(&there)));
            own.push(Report {
                shown,
                places,
                numbers: (before..keys.len()).collect(),
            });
        }
        Self {
            reports: own,
            files: Arc::new(OwnFiles::new(keys)),
        }
    }

    /// The report files, which a scan omits.
    pub fn files(&self) -> Arc<OwnFiles> {
        Arc::clone(&self.files)
    }

    /// Notes about the report files that a scan has omitted.
    pub fn notes(&self) -> Vec<String> {
        let note = |report: &Report| {
            let met = report.numbers.iter().map(|number| self.files.met(*number));
            let (met, linked) = met.fold((false, false), |(met, linked), file| {
                (met || file.0, linked || file.1)
            });
            let names = if linked {
                ", with the other names of the file"
            } else {
                ""
            };
            met.then(|| {
                format!(
                    "{}: this report lies in the source and is not copied{names}",
                    report.shown
                )
            })
        };
        self.reports.iter().filter_map(note).collect()
    }

    /// Refuses reports that the transfer would delete because only the destination has them.
    pub(super) fn refuse_deletion(
        &self,
        destination: &Path,
        select: &Select,
    ) -> Result<(), Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let Ok(root) = destination.canonicalize() else {
            return Ok(());
        };
        let is_doomed = |place: &PathBuf| {
            let place = place_of(place);
            let below = place
                .as_ref()
                .and_then(|place| place.strip_prefix(&root).ok());
            below.is_some_and(|below| !select.excludes(below.as_os_str().as_bytes(), false))
        };
        let doomed = |report: &&Report| report.places.iter().any(is_doomed);
        match self.reports.iter().find(doomed) {
            None => Ok(()),
            Some(report) => Err(Failure::usage(format!(
                "{}: this report lies in the destination {}, so --delete would delete it; name a file elsewhere",
                report.shown,
                show(destination)
            ))),
        }
    }
}
