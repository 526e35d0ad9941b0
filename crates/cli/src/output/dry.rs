//! Keeps the entries of a dry run until its summary is printed, and sorts them by name.
//! Prints nothing.

use godwit_api::event::Item;

use super::plain::PlainLines;

/// Bytes of names and lines that are kept: some 200,000 entries. A longer list is printed as it is found.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// The lines of a dry run, each with the name of its entry.
#[derive(Default)]
pub(crate) struct DryList {
    lines: Vec<(Vec<u8>, String)>,
    bytes: usize,
    is_full: bool,
}

impl DryList {
    /// Keeps an entry. Returns the lines to print now, which are none as long as there is room.
    pub(crate) fn add(&mut self, item: &Item) -> Vec<String> {
        let line = PlainLines.item(item);
        self.bytes += item.path.len() + line.len() + size_of::<(Vec<u8>, String)>();
        self.lines.push((item.path.clone(), line));
        self.is_full |= self.bytes > KEPT_BYTES_MAX;
        match self.is_full {
            true => self.sorted(),
            false => Vec::new(),
        }
    }

    /// Removes the kept lines, and returns them in the order of their names.
    pub(crate) fn sorted(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        // The events of one name keep their order: an entry is deleted before another one gets its name.
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use godwit_api::event::{Action, ItemKind};

    use super::*;

    fn item(path: &[u8], action: Action) -> Item {
        Item {
            path: path.to_vec(),
            action,
            kind: ItemKind::File,
            bytes: None,
        }
    }

    #[test]
    fn entries_wait_for_the_summary_and_come_by_name() {
        let mut list = DryList::default();
        for (path, action) in [
            (&b"b"[..], Action::Delete),
            (b"c", Action::Send),
            (b"a", Action::Send),
            (b"b", Action::Send),
        ] {
            assert!(list.add(&item(path, action)).is_empty());
        }
        let lines = ["send    a", "delete  b", "send    b", "send    c"];
        assert_eq!(list.sorted(), lines);
        assert!(list.sorted().is_empty());
    }

    #[test]
    fn a_list_that_is_too_long_to_keep_is_printed_at_once() {
        let mut list = DryList::default();
        let long = vec![b'x'; KEPT_BYTES_MAX / 4];
        assert!(list.add(&item(&long, Action::Send)).is_empty());
        assert_eq!(list.add(&item(&long, Action::Send)).len(), 2);
        assert_eq!(list.add(&item(b"a", Action::Send)).len(), 1);
    }
}
