//! Reports the finds of a walk to the state, for other leases.
//! Walks nothing.

use godwit_run::walk::{PART_BYTES, Walked};
use godwit_state::{FILE_PARTS_MAX, Found, WORK_LIST_MAX, WORK_PATHS_BYTES_MAX, WorkOp, WorkPath};

use super::JobContext;

/// Most items that one command with several finds adds. The state takes no other command while it adds them.
const ITEMS_MAX: u64 = 8_192;

impl JobContext<'_> {
    /// Reports the finds of a walk in commands of bounded length.
    pub(super) fn report_finds(&self, number: u64, lease: u64, walked: &Walked) -> bool {
        let large = walked.large.iter().map(|file| Found::File {
            path: WorkPath(file.path.clone()),
            bytes: file.bytes,
            generation: file.generation,
        });
        let left = walked.left.iter().map(|(path, shares)| Found::Scan {
            path: WorkPath(path.clone()),
            shares: *shares,
        });
        let (mut finds, mut load) = (Vec::new(), Load::default());
        let report = |finds: &mut Vec<Found>| {
            let finds = std::mem::take(finds);
            let found = WorkOp::Found {
                number,
                lease,
                finds,
            };
            self.report(found)
        };
        for find in large.chain(left) {
            if !load.has_room(&find) {
                if !report(&mut finds) {
                    return false;
                }
                load = Load::default();
            }
            load.add(&find);
            finds.push(find);
        }
        finds.is_empty() || report(&mut finds)
    }
}

/// The finds of one command so far.
#[derive(Clone, Copy, Default)]
struct Load {
    finds: usize,
    path_bytes: usize,
    items: u64,
}

impl Load {
    /// Whether one more find fits. The first one always does.
    fn has_room(self, find: &Found) -> bool {
        let mut more = self;
        more.add(find);
        self.finds == 0
            || (more.finds <= WORK_LIST_MAX
                && more.path_bytes <= WORK_PATHS_BYTES_MAX
                && more.items <= ITEMS_MAX)
    }

    fn add(&mut self, find: &Found) {
        self.finds += 1;
        self.path_bytes += find.path().0.len();
        self.items += match find {
            // The file itself, and its parts.
            Found::File { bytes, .. } => 1 + bytes.div_ceil(PART_BYTES).min(FILE_PARTS_MAX),
            Found::Scan { shares, .. } | Found::Close { shares, .. } => u64::from(*shares),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of finds of each command.
    fn commands(finds: &[Found]) -> Vec<usize> {
        let mut all = Vec::new();
        let mut load = Load::default();
        for find in finds {
            if !load.has_room(find) {
                all.push(load.finds);
                load = Load::default();
            }
            load.add(find);
        }
        all.push(load.finds);
        all
    }

    #[test]
    fn finds_with_many_items_go_in_several_commands() {
        let file = |bytes: u64| Found::File {
            path: "f".into(),
            bytes,
            generation: 1,
        };
        let scan = |shares: u32| Found::Scan {
            path: "d".into(),
            shares,
        };
        let many = |find: Found, count: usize| vec![find; count];
        assert_eq!(commands(&many(file(1), 2_000)), [1_024, 976]);
        // Sparse files cost nothing, and have the most parts.
        assert_eq!(commands(&many(file(1 << 50), 20)), [7, 7, 6]);
        assert_eq!(commands(&many(scan(1_024), 10)), [8, 2]);
        let long = Found::Scan {
            path: WorkPath(vec![b'x'; 60_000]),
            shares: 1,
        };
        assert_eq!(commands(&many(long, 3)), [2, 1]);
    }
}
