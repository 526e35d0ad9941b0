//! Owns the meaning of the setting `manifest` for a job: ASC MHL histories of its copies, and which directories those are.
//! Seals nothing: `attempt::seal` has the site of the destination do so.

use std::collections::BTreeMap;

use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{NewJob, Place};

use crate::basis::relay::plain;
use crate::basis::spec;

/// The settings that the node of the job obeys. Transfers ignore them.
const SETTINGS: [&str; 2] = ["manifest", "ascmhl-digest"];

/// The only value of the setting `manifest` in a job.
const WORD: &[u8] = b"ascmhl";

/// The settings for the transfer of a job, which writes no history.
pub(crate) fn without(settings: &BTreeMap<String, Vec<Text>>) -> BTreeMap<String, Vec<Text>> {
    let mut settings = settings.clone();
    settings.retain(|name, _| !SETTINGS.contains(&name.as_str()));
    settings
}

/// Whether the settings about histories have a form that jobs take.
pub(crate) fn check_form(new: &NewJob) -> Result<(), String> {
    let [manifest, digest] = SETTINGS;
    match new.settings.get(manifest).map(Vec::as_slice) {
        Some([word]) if word.0 == WORD => Ok(()),
        Some(_) => Err(format!(
            "--{manifest} names a file on the submitter's machine, which the node cannot reach; add manifest (godwit job submit --manifest), and fetch the manifest with: godwit job manifest ID; the word ascmhl in its place seals the copies with ASC MHL histories"
        )),
        None if new.settings.contains_key(digest) => Err(format!(
            "--{digest} is for ASC MHL histories: add manifest=ascmhl, or leave it out"
        )),
        None => Ok(()),
    }
}

/// The kinds of digest if the copies of a job get a history; None if they get none.
pub(crate) fn kinds(new: &NewJob) -> Option<String> {
    let [manifest, _] = SETTINGS;
    if new.kind == JobKind::Verify || !new.settings.contains_key(manifest) {
        return None;
    }
    let settings = new.kind.copy_settings(&new.settings).ok()?;
    let kinds = settings.reports.ascmhl?;
    (!settings.comparison.dry_run).then(|| kinds.to_string_lossy().into_owned())
}

/// Refuses a job whose copies cannot be named, or have a place that gets no history.
pub(crate) fn check(new: &NewJob) -> Result<(), String> {
    let Some(_) = kinds(new) else {
        return Ok(());
    };
    let (sources, destination) = spec::places(new).map_err(|error| error.to_string())?;
    let is_near = destination.is_here() || sources.iter().all(Place::is_here);
    match copies(new, None)? {
        // An attempt of this node finds out.
        None if is_near => Ok(()),
        None => Err(
            "--manifest ascmhl: between two other sites, end the destination with a slash, or the source with /. for its contents, so that this node knows which directory gets the history"
                .to_owned(),
        ),
        Some(places) if places.iter().any(|place| place.path.is_empty()) => Err(
            "--manifest ascmhl: an export itself gets no history; name a directory in it".to_owned(),
        ),
        Some(_) => Ok(()),
    }
}

/// Whether an attempt of this node has to find out which directory gets a history.
pub(crate) fn is_found_out(new: &NewJob) -> bool {
    kinds(new).is_some() && matches!(copies(new, None), Ok(None))
}

/// The directories that a job makes, one for each source that goes into the destination, or the destination itself. `into` is the meaning of
/// the destination as an attempt found it. None while that is not known.
pub(crate) fn copies(new: &NewJob, into: Option<bool>) -> Result<Option<Vec<Place>>, String> {
    let (sources, destination) = spec::places(new).map_err(|error| error.to_string())?;
    let itself = || Ok(Some(vec![plain(&destination)]));
    // The names of a list, and the entries of a synchronised source, are in the destination itself.
    if new.kind == JobKind::Sync || !new.list.is_empty() {
        return itself();
    }
    if let [source] = sources.as_slice() {
        // An export is always there.
        let is_into = destination.directory || destination.path.is_empty();
        match is_into.then_some(true).or(into) {
            _ if source.contents => return itself(),
            Some(true) => {}
            Some(false) => return itself(),
            None => return Ok(None),
        }
    }
    let mut places: Vec<Place> = Vec::new();
    for source in &sources {
        let place = match source.contents {
            true => plain(&destination),
            false => below(&destination, source)?,
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(Some(places))
}

/// The place of a source in its destination.
fn below(destination: &Place, source: &Place) -> Result<Place, String> {
    let name = source.path.rsplit(|byte| *byte == b'/').next();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(format!(
            "--manifest ascmhl: the copy of the whole export {source} has no name that is known here; write {source}/. for its contents"
        ));
    };
    let mut place = plain(destination);
    if !place.path.is_empty() {
        place.path.push(b'/');
    }
    place.path.extend_from_slice(name);
    Ok(place)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new(sources: &[&str], destination: &str, more: serde_json::Value) -> NewJob {
        let mut new = json!({
            "sources": sources, "destination": destination, "settings": {"manifest": ["ascmhl"]},
        });
        for (name, value) in more.as_object().expect("fields") {
            new[name] = value.clone();
        }
        serde_json::from_value(new).expect("a job")
    }

    fn places(new: &NewJob, into: Option<bool>) -> Option<Vec<String>> {
        let copies = copies(new, into).expect("they have names");
        copies.map(|all| all.iter().map(Place::to_string).collect())
    }

    fn one(text: &str) -> Option<Vec<String>> {
        Some(vec![text.to_owned()])
    }

    #[test]
    fn the_copies_are_where_the_transfer_puts_them() {
        for (source, destination, into, expected) in [
            ("here:/data/run", "b:/in/x", None, None),
            ("here:/data/run", "b:/in/x", Some(true), one("b:/in/x/run")),
            ("here:/data/run", "b:/in/x", Some(false), one("b:/in/x")),
            ("here:/data/run", "b:/in/x/", None, one("b:/in/x/run")),
            ("here:/data/run", "b:/in", None, one("b:/in/run")),
            ("here:/data/run/.", "b:/in/x", None, one("b:/in/x")),
            ("here:/data/run/.", "b:/in/x/", Some(true), one("b:/in/x")),
        ] {
            let new = new(&[source], destination, json!({}));
            assert_eq!(places(&new, into), expected, "{source} {destination}");
        }
        let both = ["here:/data/a", "here:/data/b"];
        let two = new(&both, "b:/in/x", json!({}));
        let expected = ["b:/in/x/a", "b:/in/x/b"].map(str::to_owned).to_vec();
        assert_eq!(places(&two, None), Some(expected));
        let sync = new(&both[..1], "b:/in/x/", json!({"kind": "sync"}));
        assert_eq!(places(&sync, None), one("b:/in/x"));
        let listed = new(&both[..1], "b:/in/x/", json!({"list": ["one"]}));
        assert_eq!(places(&listed, None), one("b:/in/x"));
    }

    #[test]
    fn a_job_that_cannot_name_its_copies_is_refused() {
        let refused = |source: &str, destination: &str, words: &str| {
            let why = check(&new(&[source], destination, json!({}))).expect_err("refused");
            assert!(why.contains(words), "{why}");
        };
        refused("here:/data", "b:/in/", "whole export");
        refused("here:/data/run/.", "b:/in", "an export itself");
        refused("a:/data/run", "b:/in/x", "between two other sites");
        for (source, destination) in [
            ("here:/data/run", "b:/in/x"),
            ("a:/data/run", "here:/in/x"),
            ("a:/data/run", "b:/in/x/"),
            ("a:/data/run/.", "b:/in/x"),
        ] {
            let new = new(&[source], destination, json!({}));
            check(&new).expect("it names its copies");
        }
    }

    /// Another site that ran the transfer would keep from this node where the copy is.
    #[test]
    fn a_copy_that_only_an_attempt_can_name_is_known() {
        for (destination, is_found) in [
            ("here:/in/x", true),
            ("here:/in/x/", false),
            ("here:/in", false),
        ] {
            let mut new = new(&["a:/data/run"], destination, json!({}));
            assert_eq!(is_found_out(&new), is_found, "{destination}");
            new.settings.clear();
            assert!(!is_found_out(&new), "nothing is sealed");
        }
    }

    #[test]
    fn only_the_word_ascmhl_is_a_manifest_of_a_job() {
        let good = new(&["here:/data/run"], "b:/in/x", json!({}));
        check_form(&good).expect("good");
        assert_eq!(kinds(&good).as_deref(), Some("xxh64"));
        let with = |settings: serde_json::Value| {
            let more = json!({"settings": settings});
            new(&["here:/data/run"], "b:/in/x", more)
        };
        let digests = with(json!({"manifest": ["ascmhl"], "ascmhl-digest": ["md5,c4"]}));
        check_form(&digests).expect("good");
        assert_eq!(kinds(&digests).as_deref(), Some("md5,c4"));
        let dry = with(json!({"manifest": ["ascmhl"], "dry-run": ["true"]}));
        assert_eq!(kinds(&dry), None);
        for (settings, words) in [
            (json!({"manifest": ["/tmp/x"]}), "names a file"),
            (json!({"manifest": ["ascmhl", "x"]}), "names a file"),
            (json!({"ascmhl-digest": ["md5"]}), "add manifest=ascmhl"),
        ] {
            let why = check_form(&with(settings)).expect_err("refused");
            assert!(why.contains(words), "{why}");
        }
        assert!(without(&digests.settings).is_empty());
    }
}
