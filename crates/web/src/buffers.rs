//! Owns how the buffers of all nodes of a cluster are shown as one pool: rows, pages and results of several nodes become one answer.
//! Asks no node, and checks no right: its callers do.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_api::ask::{BufferAnswer, BufferQuestion};
use godwit_api::rest::{
    BufferChanged, BufferFile, BufferFiles, BufferNode, BufferNodeChanged, BufferView,
};

use crate::config::BufferControl;

/// Most files of a page for another node: as for a client.
const PAGE_MAX: usize = 1000;

/// The longest time for which a request makes files stay, as a job by its settings.
const KEEP_MAX: Duration = Duration::from_secs(3_650 * 86_400);

/// Most bytes of such a page; a document has 1 MiB.
const PAGE_BYTES_MAX: usize = 900 << 10;
/// Most bytes of a file in a document, without its path and a reason.
const FILE_BYTES: usize = 300;

/// The answers of the other nodes, by their names.
pub(crate) type Answers = Vec<(String, Result<BufferAnswer, String>)>;

/// The answer of a node about its own buffer, or about none.
#[must_use]
pub fn answer_of(buffer: Option<&dyn BufferControl>, question: &BufferQuestion) -> BufferAnswer {
    let changed = |changed: Option<BufferChanged>| {
        let changed = changed.unwrap_or_default();
        BufferAnswer::Changed {
            files: changed.files,
            refused: changed.refused,
        }
    };
    match question {
        BufferQuestion::View {} => {
            let view = buffer.map(BufferControl::view);
            BufferAnswer::View(Box::new(view.unwrap_or_default()))
        }
        BufferQuestion::Files {
            export,
            below,
            after,
            most,
        } => {
            let after = after.as_ref().map(|after| &after.0[..]);
            let page = buffer.map(|buffer| buffer.files(export, &below.0, after, page_of(*most)));
            BufferAnswer::Files(cut(page.unwrap_or_default()))
        }
        BufferQuestion::Waiting {
            export,
            below,
            after,
            most,
        } => {
            let after = after.as_ref().map(|after| &after.0[..]);
            let page = buffer.map(|buffer| buffer.waiting(export, &below.0, after, page_of(*most)));
            BufferAnswer::Files(cut(page.unwrap_or_default()))
        }
        BufferQuestion::Keep {
            export,
            below,
            seconds,
        } => {
            let time = time_of(*seconds);
            changed(buffer.map(|buffer| buffer.keep(export, &below.0, time)))
        }
        BufferQuestion::Drop { export, below } => {
            changed(buffer.map(|buffer| buffer.drop_files(export, &below.0)))
        }
        BufferQuestion::Retry { export, below } => {
            changed(buffer.map(|buffer| buffer.retry(export, &below.0)))
        }
        BufferQuestion::GiveUp { export, below } => {
            changed(buffer.map(|buffer| buffer.give_up(export, &below.0)))
        }
    }
}

/// How long files stay by a request; None is without end. A time that no calendar has would show no end, and no pin.
fn time_of(seconds: Option<u64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs(seconds).min(KEEP_MAX))
}

/// Files of a page for which another node asks.
fn page_of(most: u32) -> usize {
    let most = usize::try_from(most).unwrap_or(PAGE_MAX);
    most.clamp(1, PAGE_MAX)
}

/// Cuts a page to the length of a document, in which a byte of a text may take six.
fn cut(mut page: BufferFiles) -> BufferFiles {
    let mut bytes = 0;
    let at = page.files.iter().position(|file| {
        let reason = file.reason.as_ref().map_or(0, String::len);
        bytes += 6 * (file.path.0.len() + reason) + FILE_BYTES;
        bytes > PAGE_BYTES_MAX
    });
    if let Some(at) = at {
        page.files.truncate(at.max(1));
        page.next = page.files.last().map(|file| file.path.clone());
    }
    page
}

/// A row for each node. A node whose extents have another size shares none with this one.
pub(crate) fn nodes(own: &str, view: &BufferView, others: Answers) -> Vec<BufferNode> {
    if others.is_empty() {
        return Vec::new();
    }
    let row = |(name, answer): (String, Result<BufferAnswer, String>)| match answer {
        Ok(BufferAnswer::View(other)) => {
            let differs = !view.volumes.is_empty()
                && !other.volumes.is_empty()
                && view.extent_bytes != other.extent_bytes;
            let reason = "its extents have another size, so it shares none with this node";
            BufferNode {
                reason: differs.then(|| reason.to_owned()),
                ..BufferNode::of(&name, &other)
            }
        }
        Ok(_) => BufferNode::silent(&name, "it does not show its buffer"),
        Err(reason) => BufferNode::silent(&name, &reason),
    };
    let first = BufferNode::of(own, view);
    std::iter::once(first)
        .chain(others.into_iter().map(row))
        .collect()
}

/// One page of the pages of several nodes. A file that lies at several nodes becomes one.
pub(crate) fn merged(own: BufferFiles, others: Answers, most: usize) -> BufferFiles {
    let (mut pages, mut silent) = (vec![own], Vec::new());
    for (name, answer) in others {
        match answer {
            Ok(BufferAnswer::Files(page)) => pages.push(page),
            _ => silent.push(name),
        }
    }
    // If a node has further pages, its files behind the end of this page are not known yet.
    let ends = pages.iter().filter_map(|page| page.next.clone());
    let end = ends.min();
    let mut files: BTreeMap<_, BufferFile> = BTreeMap::new();
    for file in pages.into_iter().flat_map(|page| page.files) {
        if end.as_ref().is_some_and(|end| file.path > *end) {
            continue;
        }
        let key = (file.path.clone(), file.bytes);
        match files.get_mut(&key) {
            Some(known) => add(known, &file),
            None => drop(files.insert(key, file)),
        }
    }
    let has_more = files.len() > most;
    let files: Vec<BufferFile> = files.into_values().take(most).collect();
    let next = match has_more {
        true => files.last().map(|last| last.path.clone()),
        false => end,
    };
    BufferFiles {
        files,
        next,
        silent,
    }
}

/// Adds the part of another node to a file.
fn add(file: &mut BufferFile, part: &BufferFile) {
    let held = file.bytes_held.saturating_add(part.bytes_held);
    // Two nodes may have the same extents.
    file.bytes_held = held.min(file.bytes);
    file.dirty |= part.dirty;
    file.pinned |= part.pinned;
    file.until = file.until.max(part.until);
    if file.waiting.is_none() || part.tries > file.tries {
        file.waiting.clone_from(&part.waiting);
        file.reason.clone_from(&part.reason);
    }
    file.tries = file.tries.max(part.tries);
    file.since = [file.since, part.since].into_iter().flatten().min();
}

/// The result of a change at all nodes.
pub(crate) fn changed(own: &str, here: &BufferAnswer, others: Answers) -> BufferChanged {
    let row = |name: &str, answer: Result<&BufferAnswer, String>| {
        let mut row = BufferNodeChanged {
            node: name.to_owned(),
            ..BufferNodeChanged::default()
        };
        match answer {
            Ok(BufferAnswer::Changed { files, refused }) => {
                (row.files, row.refused) = (*files, *refused);
            }
            Ok(_) => row.problem = Some("it does not change its buffer".to_owned()),
            Err(reason) => row.problem = Some(reason),
        }
        row
    };
    let mut rows = vec![row(own, Ok(here))];
    rows.extend(
        others
            .iter()
            .map(|(name, answer)| row(name, answer.as_ref().map_err(Clone::clone))),
    );
    let sum = |of: fn(&BufferNodeChanged) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    BufferChanged {
        files: sum(|row| row.files),
        refused: sum(|row| row.refused),
        nodes: match others.is_empty() {
            true => Vec::new(),
            false => rows,
        },
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::job::Text;
    use godwit_api::rest::{BufferVolume, Timestamp};

    use super::*;

    fn file(path: &str, held: u64) -> BufferFile {
        BufferFile {
            path: Text::from(path),
            bytes: 10,
            bytes_held: held,
            dirty: false,
            pinned: false,
            until: None,
            waiting: None,
            since: None,
            tries: None,
            reason: None,
        }
    }

    fn page(files: &[(&str, u64)], next: Option<&str>) -> BufferFiles {
        BufferFiles {
            files: files.iter().map(|(path, held)| file(path, *held)).collect(),
            next: next.map(Text::from),
            silent: Vec::new(),
        }
    }

    fn answered(page: BufferFiles) -> Result<BufferAnswer, String> {
        Ok(BufferAnswer::Files(page))
    }

    fn paths(page: &BufferFiles) -> Vec<(&[u8], u64)> {
        let files = page.files.iter();
        files
            .map(|file| (&file.path.0[..], file.bytes_held))
            .collect()
    }

    #[test]
    fn pages_of_several_nodes_are_one_page_and_no_file_is_left_out() {
        let own = page(&[("a", 4), ("c", 1), ("d", 1)], Some("d"));
        let others = vec![
            (
                "n2".to_owned(),
                answered(page(&[("a", 4), ("b", 2)], Some("b"))),
            ),
            ("n3".to_owned(), Err("it does not answer".to_owned())),
        ];
        let merged = merged(own, others, 10);
        assert_eq!(paths(&merged), [(&b"a"[..], 8), (&b"b"[..], 2)]);
        assert_eq!(merged.next, Some(Text::from("b")));
        assert_eq!(merged.silent, ["n3"]);
    }

    #[test]
    fn a_page_for_another_node_fits_into_a_document() {
        let files =
            (0..1000).map(|number| file(&format!("{number:04}{}", "\u{1}".repeat(4000)), 1));
        let page = BufferFiles {
            files: files.collect(),
            ..BufferFiles::default()
        };
        let page = cut(page);
        let last = page.files.last().map(|file| file.path.clone());
        assert!(page.files.len() < 1000 && page.next == last);
        let document = godwit_api::ask::Answer::Buffer(BufferAnswer::Files(page)).to_document();
        assert!(document.len() < 1 << 20, "{}", document.len());
        assert_eq!(cut(self::page(&[("a", 1)], None)).next, None);
    }

    #[test]
    fn a_page_that_is_full_continues_behind_its_last_file() {
        let others = vec![("n2".to_owned(), answered(page(&[("a", 9), ("c", 2)], None)))];
        let first = merged(page(&[("a", 9), ("b", 1)], None), others.clone(), 2);
        assert_eq!(
            paths(&first),
            [(&b"a"[..], 10), (&b"b"[..], 1)],
            "the sum is bounded"
        );
        assert_eq!(first.next, Some(Text::from("b")));
        let all = merged(page(&[], None), others, 2);
        assert_eq!((all.files.len(), all.next), (2, None));
    }

    #[test]
    fn files_stay_for_a_time_that_a_list_can_show() {
        assert_eq!(time_of(None), None);
        assert_eq!(time_of(Some(0)), Some(Duration::ZERO));
        assert_eq!(time_of(Some(7)), Some(Duration::from_secs(7)));
        assert_eq!(time_of(Some(u64::MAX)), Some(KEEP_MAX));
    }

    #[test]
    fn a_file_stays_as_long_as_at_any_node() {
        let mut one = file("a", 1);
        let mut other = file("a", 1);
        one.until = Some(Timestamp(5));
        (other.until, other.pinned) = (Some(Timestamp(7)), true);
        add(&mut one, &other);
        assert_eq!((one.until, one.pinned), (Some(Timestamp(7)), true));
    }

    #[test]
    fn a_file_that_waits_at_two_nodes_shows_its_trouble_and_the_longer_wait() {
        let waiting = |state: &str, since, tries| BufferFile {
            waiting: Some(state.to_owned()),
            since: Some(Timestamp(since)),
            tries: Some(tries),
            reason: (tries > 0).then(|| "the disk is full".to_owned()),
            ..file("a", 1)
        };
        for (mut one, other) in [
            (waiting("ready", 5, 0), waiting("aside", 7, 5)),
            (waiting("aside", 7, 5), waiting("ready", 5, 0)),
        ] {
            add(&mut one, &other);
            let expected = waiting("aside", 5, 5);
            let expected = BufferFile {
                bytes_held: 2,
                ..expected
            };
            assert_eq!(one, expected);
        }
    }

    #[test]
    fn the_row_of_a_node_says_what_waits_there() {
        let view = BufferView {
            files_waiting: 3,
            files_aside: 1,
            bytes_draining: 4,
            oldest_dirty: Some(Timestamp(5)),
            ..BufferView::default()
        };
        let others = vec![("n2".to_owned(), Ok(BufferAnswer::View(Box::new(view))))];
        let rows = nodes("n1", &BufferView::default(), others);
        let row = rows.last().expect("a row");
        assert_eq!((row.files_waiting, row.files_aside), (3, 1));
        assert_eq!(
            (row.bytes_draining, row.oldest_dirty),
            (4, Some(Timestamp(5)))
        );
    }

    #[test]
    fn each_node_has_a_row_and_a_silent_one_says_why() {
        let volume = BufferVolume {
            path: None,
            state: "well".to_owned(),
            reason: None,
            bytes_total: 8,
            bytes_free: 8,
        };
        let view = |extent_bytes| BufferView {
            extent_bytes,
            bytes_total: 8,
            volumes: vec![volume.clone()],
            ..BufferView::default()
        };
        let others = vec![
            ("n2".to_owned(), Ok(BufferAnswer::View(Box::new(view(1))))),
            ("n3".to_owned(), Err("it does not answer".to_owned())),
            ("n4".to_owned(), Ok(BufferAnswer::View(Box::new(view(2))))),
            ("n5".to_owned(), Ok(BufferAnswer::View(Box::default()))),
        ];
        let rows = nodes("n1", &view(1), others);
        let states: Vec<&str> = rows.iter().map(|row| &row.state[..]).collect();
        assert_eq!(states, ["well", "well", "silent", "well", "none"]);
        let reasons: Vec<bool> = rows.iter().map(|row| row.reason.is_some()).collect();
        assert_eq!(reasons, [false, false, true, true, false]);
        assert!(nodes("n1", &view(1), Vec::new()).is_empty());
    }

    #[test]
    fn the_result_of_a_change_names_each_node() {
        let done = |files| BufferAnswer::Changed { files, refused: 1 };
        let others = vec![
            ("n2".to_owned(), Ok(done(2))),
            ("n3".to_owned(), Err("it does not answer".to_owned())),
        ];
        let all = changed("n1", &done(3), others);
        assert_eq!((all.files, all.refused, all.nodes.len()), (5, 2, 3));
        assert_eq!(all.nodes[2].problem.as_deref(), Some("it does not answer"));
        assert!(changed("n1", &done(3), Vec::new()).nodes.is_empty());
    }
}
