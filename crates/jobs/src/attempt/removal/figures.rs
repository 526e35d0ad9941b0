//! Owns the sentences about the figures of a removal.
//! Removes nothing.

use godwit_api::units::{counted, human_size};
use godwit_run::removal::{Named, Removed};

/// The figures of a removal as sentences.
pub(super) fn words(removed: &Removed, copies: u32) -> String {
    let all = removed.files + removed.left();
    let mut text = format!(
        "Removed {} of {} at the source ({}).",
        removed.files,
        counted(all, "file"),
        human_size(removed.bytes)
    );
    let few = match copies {
        1 => "has no proven copy".to_owned(),
        copies => format!("has fewer than {copies} equal copies"),
    };
    for (named, why) in [
        (&removed.changed, "changed since it was copied"),
        (&removed.few, few.as_str()),
        (&removed.failed, "could not be read or removed"),
    ] {
        if named.count > 0 {
            text.push_str(&format!(" {}", left(named, why)));
        }
    }
    if removed.linked > 0 {
        let names = counted(removed.linked, "name");
        text.push_str(&format!(" {names} of files with several names stay."));
    }
    if removed.gone > 0 {
        text.push_str(&format!(
            " {} gone before.",
            match removed.gone {
                1 => "1 file was".to_owned(),
                many => format!("{many} files were"),
            }
        ));
    }
    if removed.stopped {
        text.push_str(" The removal was stopped before its end.");
    }
    if removed.left() > 0 {
        text.push_str(" Submit the job again for the files that stay.");
    }
    text
}

/// Files that stay, with the first names.
fn left(named: &Named, why: &str) -> String {
    let names = named.names.join(", ");
    match named.count {
        1 => format!("1 file stays because it {why}: {names}."),
        many => format!("{many} files stay because each {why}: {names}."),
    }
}
