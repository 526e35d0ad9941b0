//! Reports of entries that failed at the source, which travel in the next bundles. Sends nothing.

use std::collections::VecDeque;

use godwit_proto::Record;

use crate::{entry, limits};

/// Reports that wait for a bundle.
#[derive(Default)]
pub(crate) struct Notices {
    records: VecDeque<Record>,
    /// Extensions and long names in them, in bytes.
    extra_bytes: usize,
}

impl Notices {
    pub(crate) fn push(&mut self, notice: Record) {
        self.extra_bytes += entry::extra_bytes(&notice);
        self.records.push_back(notice);
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn extra_bytes(&self) -> usize {
        self.extra_bytes
    }

    /// Takes the reports for one bundle, which also has room for files.
    pub(super) fn take(&mut self) -> Vec<Record> {
        let (mut taken, mut section) = (Vec::new(), 0);
        while taken.len() < limits::BUNDLE_RECORDS_MAX / 2
            && let Some(next) = self.records.front()
        {
            section += entry::encoded_bytes(next);
            if section > limits::RECORD_SECTION_BYTES / 2 && !taken.is_empty() {
                break;
            }
            self.extra_bytes -= entry::extra_bytes(next);
            taken.extend(self.records.pop_front());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_with_long_names_are_spread_over_bundles() {
        let mut notices = Notices::default();
        let notice = |bytes: usize| Record {
            path: vec![b'x'; bytes],
            ..Record::default()
        };
        for bytes in [60_000, 60_000, 60_000, 10, 10] {
            notices.push(notice(bytes));
        }
        assert!(notices.extra_bytes() > 170_000);
        assert_eq!([notices.take().len(), notices.take().len()], [2, 3]);
        assert!(notices.is_empty() && notices.extra_bytes() == 0);
        (0..2_000).for_each(|_| notices.push(notice(10)));
        assert_eq!(notices.take().len(), limits::BUNDLE_RECORDS_MAX / 2);
        // An additional name of a file that failed contains the first name.
        let mut links = Notices::default();
        for _ in 0..limits::BUNDLE_RECORDS_MAX {
            links.push(Record {
                target: vec![b'x'; 3_000],
                ..notice(10)
            });
        }
        let taken: usize = links.take().iter().map(entry::encoded_bytes).sum();
        assert!(taken <= limits::RECORD_SECTION_BYTES, "{taken}");
    }
}
