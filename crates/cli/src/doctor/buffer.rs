//! The transfer buffer of the node of this machine: whether it works, has room, and lies apart from the directory.
//! Opens no volume: the node says what it has.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use godwit_api::rest::{BufferView, BufferVolume};
use godwit_api::units::human_size;

use super::Directory;
use super::findings::Findings;

/// Looks at the buffer. A node without one gives no finding.
pub(super) fn look(view: &BufferView, directory: &Directory, findings: &mut Findings) {
    if view.volumes.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for volume in &view.volumes {
        // Only admins learn the place.
        let place = volume.path.as_ref().map(|path| path.to_os());
        let shown = place.as_ref().map_or_else(
            || "a volume".to_owned(),
            |place| Path::new(place).display().to_string(),
        );
        notes.extend(trouble(volume, &shown));
        if let Some(place) = &place
            && is_on_file_system_of(Path::new(place), &directory.path)
        {
            notes.push((
                format!(
                    "{shown} lies on the file system of {}, so it makes nothing faster there and takes its room",
                    directory.path.display()
                ),
                "choose a place on flash apart from that file system".to_owned(),
            ));
        }
    }
    for stall in &view.stalled {
        let export = stall.export.escape_default();
        notes.push((
            format!("the export {export} takes no data from it, so its files wait on flash"),
            "look at the storage of that export; godwit buffer list --waiting names the files"
                .to_owned(),
        ));
    }
    if view.is_nearly_full() {
        notes.push((
            format!(
                "nearly full: {} of {} are pinned, kept, undrained or on their way",
                human_size(view.bytes_taken()),
                human_size(view.bytes_total)
            ),
            "godwit buffer list names the files; unpin some, or add a volume".to_owned(),
        ));
    }
    if notes.is_empty() {
        let (free, all) = (human_size(view.bytes_free), human_size(view.bytes_total));
        findings.fine("buffer", format!("{free} of {all} are free"));
    }
    for (message, mend) in notes {
        findings.note("buffer", message, Some(mend));
    }
}

/// The trouble of a volume and its remedy, if it is not well.
fn trouble(volume: &BufferVolume, shown: &str) -> Option<(String, String)> {
    let is = match volume.state.as_str() {
        "well" => return None,
        "slow" => "is far slower than usual",
        "closed" => "could not be opened",
        _ => "is out, and the node runs without it",
    };
    let why = volume.reason.as_ref();
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let mend = "the log of the node has its errors; replace the device, or take the volume out of the settings";
    Some((format!("{shown} {is}{why}"), mend.to_owned()))
}

/// Whether a place, or the directory that it lies in, is on the file system of another one.
fn is_on_file_system_of(place: &Path, other: &Path) -> bool {
    let device = |path: &Path| {
        let mut there = path.ancestors().filter(|at| !at.as_os_str().is_empty());
        there.find_map(|at| std::fs::metadata(at).ok())
    };
    let (place, other) = (device(place), device(other));
    place
        .zip(other)
        .is_some_and(|(place, other)| place.dev() == other.dev())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use godwit_api::rest::{BufferStall, Timestamp};

    use super::super::findings::Level;
    use super::*;

    fn reported(view: &BufferView) -> Vec<(Level, String)> {
        let directory = Directory {
            path: PathBuf::from("/proc"),
            must_take: true,
        };
        let mut findings = Findings::default();
        look(view, &directory, &mut findings);
        let all = findings.all.into_iter();
        all.map(|one| (one.level, one.message)).collect()
    }

    fn volume(state: &str) -> BufferVolume {
        BufferVolume {
            path: None,
            state: state.to_owned(),
            reason: None,
            bytes_total: 100,
            bytes_free: 100,
        }
    }

    #[test]
    fn a_full_buffer_and_a_failing_volume_are_named() {
        assert!(reported(&BufferView::default()).is_empty());
        let mut view = BufferView {
            bytes_total: 1000,
            bytes_free: 500,
            bytes_clean: 500,
            bytes_kept: 100,
            volumes: vec![volume("well")],
            ..BufferView::default()
        };
        let found = reported(&view);
        let [(level, text)] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(*level, Level::Fine);
        assert!(text.contains("500 B"), "{text}");
        view.bytes_dirty = 700;
        view.bytes_kept = 200;
        view.volumes.push(volume("slow"));
        view.volumes.push(volume("out"));
        let reported = reported(&view);
        let texts: Vec<&str> = reported.iter().map(|(_, text)| text.as_str()).collect();
        assert!(
            reported.iter().all(|(level, _)| *level == Level::Note),
            "{reported:?}"
        );
        assert!(
            texts[0].contains("slower") && texts[1].contains("out"),
            "{texts:?}"
        );
        assert!(texts[2].contains("nearly full: 900"), "{texts:?}");
        view.stalled.push(BufferStall {
            export: "tape".to_owned(),
            since: Timestamp(1),
            files: 2,
        });
        let stalled = self::reported(&view);
        assert!(
            stalled
                .iter()
                .any(|(_, text)| text.contains("tape takes no data"))
        );
    }
}
