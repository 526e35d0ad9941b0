//! Tests of whose journals a cleanup for one job forgets.

use std::fs;

use godwit_api::ask::{Answer, ClaimPlace, Mark, Question};
use godwit_api::job::{ClaimId, Text};
use godwit_net::IdentityId;
use godwit_store::Syncs;
use godwit_store::digest::DigestKind;
use godwit_store::journal::{JournalKey, sender_tag};

use super::*;
use crate::allow::Who;
use crate::ask::claim::Holder;
use crate::ask::here::Here;
use crate::begin::tests::export;
use crate::claims::By;
use godwit_api::grant::lasting::Look;

fn identity(letter: &str) -> IdentityId {
    let text = format!("gw1-{}a", letter.repeat(51));
    text.parse().expect("an identity")
}

fn peer(letter: &str) -> By {
    By::Peer(Who::itself(identity(letter)))
}

/// Tags are no secret: they are in the names of the files. So the right to delete there does not let a peer end what another can resume.
#[test]
fn a_peer_forgets_its_own_transfers_and_those_of_its_claim() {
    let directory = tempfile::tempdir().expect("made");
    let (data, home) = (directory.path().join("data"), directory.path().join("home"));
    for path in [&data, &home.join("journals")] {
        fs::create_dir_all(path).expect("made");
    }
    let journals = home.join("journals");
    let here = Here::new(vec![export(&data)], home, Syncs::default());
    let claim = ClaimId([7; 16]);
    let begin = |name: &str, sender: Option<&str>, claim: Option<ClaimId>| {
        let key = JournalKey::of(&[name.as_bytes()]);
        let header = JournalHeader {
            mapping: Vec::new(),
            digest: DigestKind::Crc64Nvme,
            destinations: vec![data.as_os_str().as_bytes().to_vec()],
            label: String::new(),
            claim: claim.map(|claim| claim.0),
            sender: sender.map(|letter| sender_tag(identity(letter).to_string().as_bytes())),
        };
        let opened = JournalDirectory::open(&journals).expect("opened");
        let begun = opened.begin(key, || Ok::<_, Refusal>(header));
        drop(begun.expect("begun"));
        let mut tag = [0; 8];
        tag.copy_from_slice(&key.0[..8]);
        let tag = u64::from_le_bytes(tag);
        let name = TempName::new(tag, &RelPath::parse(b"file").expect("a path"));
        let file = data.join(name.to_string());
        fs::write(&file, b"begun").expect("written");
        (tag, file)
    };
    let everything = |_: &str, _: &RelPath, _| Ok(());
    let clean = |by: &By, tag: u64, claim: Option<ClaimId>| {
        let wish = CleanPlace {
            path: Text::from("data"),
            tags: vec![tag],
            claim,
            ..CleanPlace::default()
        };
        match here.answer_to(by, &Question::Clean(wish), &everything, &mut |_| true) {
            Ok(Answer::Cleaned(cleaned)) => cleaned,
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        ("own", Some("a"), true),
        ("of another", Some("b"), false),
        ("of an earlier version", None, false),
    ];
    for (name, sender, goes) in cases {
        let (tag, file) = begin(name, sender, None);
        let cleaned = clean(&peer("a"), tag, None);
        assert_eq!(!file.exists(), goes, "{name}: {cleaned:?}");
        if !goes {
            assert_eq!(cleaned.kept[0].reason, OF_OTHERS, "{name}");
            // The nodes of the site itself check the rights of their users.
            clean(&By::Member(identity("c")), tag, None);
            assert!(!file.exists(), "{name}");
        }
    }
    // The id of a claim can be guessed: it counts for those who may change the claim.
    let holder = |by: By| Holder {
        by,
        may_hold: &|_, _| Look::Holds,
    };
    let set = Question::Claim(ClaimPlace {
        copies: false,
        claim,
        epoch: 1,
        path: "data/set".into(),
        members: vec![identity("b").to_string()],
        lease_ms: 60_000,
        fence: Vec::new(),
        mark: Mark::Untouched,
    });
    let set = here.claim(&set, &holder(peer("a")), &everything, &|_| false);
    assert!(matches!(set, Some(Ok(_))), "{set:?}");
    for (by, goes) in [("d", false), ("a", true)] {
        let (tag, file) = begin(&format!("member {by}"), Some("b"), Some(claim));
        clean(&peer(by), tag, Some(claim));
        assert_eq!(!file.exists(), goes, "{by}");
    }
}
