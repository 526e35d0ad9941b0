//! Tests the size of the batches of a list. The tests of the program check which entries a list names.

use godwit_proto::Portion;
use godwit_store::Storage;
use godwit_testkit::MemoryStorage;

use super::*;

/// A list of some names that are there from the beginning.
struct NamesInMemory(Vec<u8>);

impl Names for NamesInMemory {
    fn next(&mut self, out: &mut Vec<u8>, _: Duration) -> Supply {
        out.append(&mut self.0);
        Supply::End
    }
}

/// A path with 2,000 directories above it, whose paths together have 8 MB.
fn deep() -> RelPath {
    RelPath::parse(&[b"ddd".as_slice(); 2_000].join(&b'/')).unwrap()
}

fn root() -> TreeRoot {
    let storage = MemoryStorage::new();
    storage.make_directory(&deep(), 0o755).unwrap();
    TreeRoot {
        storage: Arc::new(storage),
        start: RelPath::root(),
    }
}

/// The paths that a list offers, in order, none in a batch of many bytes.
fn offered(mut list: ListWork) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    loop {
        let mut batch = Offers::default();
        let more = list.next_batch(&mut batch);
        let of_batch = batch.entries.into_iter().map(|record| record.path);
        let of_batch: Vec<Vec<u8>> = of_batch.collect();
        let bytes: usize = of_batch.iter().map(Vec::len).sum();
        assert!(bytes <= 2 << 20, "{bytes}");
        assert!(batch.faults.is_empty());
        paths.extend(of_batch);
        if !more {
            return paths;
        }
    }
}

fn with_those_above(path: &RelPath) -> Vec<Vec<u8>> {
    let above = path.above_from_root().filter(|above| !above.is_root());
    let mut paths: Vec<Vec<u8>> = above.map(RelPath::into_bytes).collect();
    paths.push(path.as_bytes().to_vec());
    paths
}

#[test]
fn the_directories_above_a_name_are_offered_in_bounded_batches() {
    let spill = tempfile::tempdir().unwrap();
    let mut names = deep().into_bytes();
    names.push(0);
    let list = ListWork::new(
        root(),
        Box::new(NamesInMemory(names)),
        Selecting::all(),
        spill.path(),
    );
    assert_eq!(offered(list), with_those_above(&deep()));
}

#[test]
fn the_directories_above_an_item_are_offered_in_bounded_batches() {
    let spill = tempfile::tempdir().unwrap();
    let file = deep().join(b"file").unwrap();
    let item = WorkItem::new(file.as_bytes().to_vec(), 1, &Portion::Whole).unwrap();
    let none = Box::new(NamesInMemory(Vec::new()));
    let list = ListWork::new(root(), none, Selecting::all(), spill.path()).with_items(vec![item]);
    assert_eq!(offered(list), with_those_above(&file));
}
