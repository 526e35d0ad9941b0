//! What a closer does where another node may be late.
//! Does not test fences of a node (`godwit_node`).

use godwit_engine::{Acks, Counters, Observer, Sink};
use godwit_proto::{EntryId, EntryKind, Generation, TransferId};
use godwit_store::{Confine, FsStorage};

use super::*;
use crate::{DestinationRequest, Earlier, TreeSink};

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

/// Whether others may be late.
struct Late(bool);

impl Fence for Late {
    fn holds(&self) -> bool {
        true
    }

    fn copies(&self) -> bool {
        self.0
    }
}

/// The names that are left of those of the claim, when a member has looked at the tree; the tag of the claim.
fn left(is_late: bool, closer: bool) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    std::fs::create_dir_all(tree.join("out/d")).unwrap();
    std::fs::create_dir(place.path().join("journals")).unwrap();
    let storage = FsStorage::open(&tree, Confine::Local, place.path()).unwrap();
    let member = Membership {
        claim: [1; CLAIM_BYTES],
        node: b"node".to_vec(),
        epoch: 1,
        closer,
        lane: 0,
        fence: Arc::new(Late(is_late)),
        part_bytes_min: 4096,
    };
    let request = DestinationRequest {
        storage: Arc::new(storage),
        storage_path: b"/target".to_vec(),
        base: RelPath::parse(b"out").unwrap(),
        is_directory: true,
        sender: b"me".to_vec(),
        sources: vec![b"/src/.".to_vec()],
        names: vec![Vec::new()],
        digest: godwit_store::digest::DigestKind::Crc64Nvme,
        force: false,
        verify: false,
        no_sync: false,
        journals: place.path().join("journals"),
        display: Vec::new(),
        comparison: None,
        select: Arc::default(),
        member: Some(member),
        earlier: Earlier::default(),
    };
    let prepared = request.prepare().unwrap();
    let tag = prepared.config.tag;
    let path = |path: &[u8]| RelPath::parse(path).unwrap();
    let put = |directory: &str, temp: TempName| {
        let name = temp.to_string();
        std::fs::write(tree.join(directory).join(&name), "late").unwrap();
        name
    };
    let named = [
        ("mark", put("out", TempName::of_mark(tag, &path(b"out")))),
        ("late", put("out", TempName::new(tag, &path(b"out/f")))),
        ("deep", put("out/d", TempName::new(tag, &path(b"out/d/f")))),
        (
            "other",
            put("out/d", TempName::new(!tag, &path(b"out/d/f"))),
        ),
    ];
    let counters = Arc::new(Counters::default());
    let acks = Acks::new(TransferId([0; 16]), Arc::new(Deaf), Arc::clone(&counters));
    let (config, journal) = (prepared.config, prepared.journal);
    let sink = TreeSink::start(
        config,
        journal,
        prepared.recovered,
        Arc::new(acks),
        counters,
    );
    let sink = sink.unwrap();
    let directory = |id, path: &[u8]| Record {
        id: EntryId(id),
        kind: EntryKind::DIRECTORY,
        generation: Generation(1),
        path: path.to_vec(),
        mode: 0o755,
        ..Record::default()
    };
    sink.plan(&[directory(1, b""), directory(2, b"d")]);
    sink.suspend();
    let is_left = |name: &str| {
        ["out", "out/d"]
            .iter()
            .any(|at| tree.join(at).join(name).exists())
    };
    let left = named.iter().filter(|(_, name)| is_left(name));
    left.map(|(what, _)| (*what).to_owned()).collect()
}

#[test]
fn a_closer_takes_away_what_could_be_renamed_late_before_it_looks() {
    assert_eq!(left(true, true), ["mark", "other"]);
    let all = ["mark", "late", "deep", "other"];
    assert_eq!(left(false, true), all);
    assert_eq!(left(true, false), all, "members may be writing");
}
