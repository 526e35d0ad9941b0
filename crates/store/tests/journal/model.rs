//! Tests journals that are whole, cut off or damaged anywhere against a model of their contents. Does not test
//! how journals exclude each other.

use std::fs;
use std::io::Cursor;

use godwit_store::digest::{Digest, DigestKind, FileDigest};
use godwit_store::journal::{PathKey, RangeRecord, Recovered, replay};
use proptest::prelude::*;

use crate::{begin, directory, done, range};

#[derive(Clone, Debug)]
enum Append {
    Ranges(Vec<(u8, u64, u64)>),
    Done(Vec<(u8, u64)>),
    Restart(u8),
    Received(u64),
    Run(bool),
}

fn appends() -> impl Strategy<Value = Vec<Append>> {
    let one = prop_oneof![
        prop::collection::vec((0..4_u8, 0..2_u64, 0..9_u64), 1..5).prop_map(Append::Ranges),
        prop::collection::vec((0..4_u8, 0..2_u64), 1..4).prop_map(Append::Done),
        (0..4_u8).prop_map(Append::Restart),
        any::<u64>().prop_map(Append::Received),
        any::<bool>().prop_map(Append::Run),
    ];
    prop::collection::vec(one, 0..12)
}

/// Writes the appends. Returns the length of the file and its contents after the header and after each append.
fn written(appends: &[Append]) -> (Vec<u8>, Vec<(usize, Said)>) {
    let (_place, directory) = directory();
    let (journal, _) = begin(&directory, 1, "/data");
    let read = || fs::read(journal.path()).unwrap();
    let mut states = vec![(read().len(), Said::default())];
    let mut model = Model::default();
    for append in appends {
        match append {
            Append::Ranges(ranges) => {
                let ranges: Vec<_> = ranges
                    .iter()
                    .map(|(name, generation, slice)| range(*name, *generation, *slice))
                    .collect();
                journal.append_ranges(&ranges).unwrap();
                ranges.iter().for_each(|range| model.add(range));
            }
            Append::Done(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(name, generation)| done(*name, *generation, 5))
                    .collect();
                journal.append_done(&entries).unwrap();
                for entry in &entries {
                    model.partial.retain(|partial| partial.0 != entry.key);
                    model.said.done.push((entry.key, entry.generation));
                }
            }
            Append::Restart(name) => {
                let key = PathKey::new(0, &[*name]);
                journal.append_restart(key).unwrap();
                model.partial.retain(|partial| partial.0 != key);
            }
            Append::Received(bytes) => {
                journal.append_received(*bytes).unwrap();
                model.said.received = *bytes;
            }
            Append::Run(forced) => {
                journal.append_run(*forced).unwrap();
                if model.said.forced != *forced {
                    model.said.done.clear();
                }
                model.said.forced = *forced;
            }
        }
        states.push((read().len(), model.say()));
    }
    (read(), states)
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    partial: Vec<(PathKey, u64, FileDigestOf)>,
    done: Vec<(PathKey, u64)>,
    received: u64,
    forced: bool,
}

type FileDigestOf = Vec<(u64, u64, Digest)>;

#[derive(Default)]
struct Model {
    partial: Vec<(PathKey, u64, FileDigest)>,
    said: Said,
}

impl Model {
    fn add(&mut self, range: &RangeRecord) {
        self.partial
            .retain(|partial| partial.0 != range.key || partial.1 == range.generation);
        if !self.partial.iter().any(|partial| partial.0 == range.key) {
            self.partial.push((
                range.key,
                range.generation,
                FileDigest::new(DigestKind::Crc64Nvme),
            ));
        }
        let partial = self
            .partial
            .iter_mut()
            .find(|partial| partial.0 == range.key)
            .unwrap();
        partial.2.add(range.offset, range.bytes, range.digest);
    }

    fn say(&mut self) -> Said {
        self.said.partial = self
            .partial
            .iter()
            .map(|(key, generation, digest)| (*key, *generation, digest.ranges()))
            .collect();
        self.said.partial.sort_by_key(|partial| partial.0);
        self.said.done.sort_unstable();
        self.said.done.dedup();
        self.said.clone()
    }
}

fn said(recovered: &Recovered) -> Said {
    let mut partial: Vec<_> = recovered
        .partial
        .iter()
        .map(|(key, partial)| (*key, partial.generation, partial.digest.ranges()))
        .collect();
    partial.sort_by_key(|partial| partial.0);
    let mut done = Vec::new();
    for (name, generation) in (0..4).flat_map(|name| [(name, 0), (name, 1)]) {
        let key = PathKey::new(0, &[name]);
        if recovered.done.contains(&key, generation) {
            done.push((key, generation));
        }
    }
    done.sort_unstable();
    assert_eq!(done.len(), recovered.done.len());
    Said {
        partial,
        done,
        received: recovered.received_bytes,
        forced: recovered.forced,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_prefix_loads_to_a_prefix(appends in appends(), flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 8)) {
        let (bytes, states) = written(&appends);
        for length in 0..=bytes.len() {
            let expected = states.iter().rev().find(|state| state.0 <= length);
            match (replay(Cursor::new(&bytes[..length])), expected) {
                (Ok(recovered), Some((whole, state))) => {
                    prop_assert_eq!(&said(&recovered), state);
                    prop_assert_eq!(recovered.damage.is_none(), *whole == length);
                }
                (Err(_), None) => {}
                (result, _) => prop_assert!(false, "prefix of {} bytes: {:?}", length, result),
            }
        }
        for (at, bit) in flips {
            let mut damaged = bytes.clone();
            let at = at.index(damaged.len());
            damaged[at] ^= 1 << bit;
            let expected = states.iter().rev().find(|state| state.0 <= at);
            match (replay(Cursor::new(&damaged)), expected) {
                (Ok(recovered), Some((_, state))) => {
                    prop_assert_eq!(&said(&recovered), state);
                    prop_assert!(recovered.damage.is_some());
                }
                (Err(_), None) => {}
                (result, _) => prop_assert!(false, "bit {} of byte {}: {:?}", bit, at, result),
            }
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut journal = b"GODWITJ\x01".to_vec();
        journal.extend_from_slice(&bytes);
        prop_assert!(replay(Cursor::new(&journal)).is_err());
        prop_assert!(replay(Cursor::new(&bytes)).is_err());
    }
}
