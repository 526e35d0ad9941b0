//! Modes that replace access lists.

use super::*;

#[test]
fn a_lost_list_gives_the_group_no_more_than_it_had() {
    let entry = |who, permissions| AclEntry { who, permissions };
    let list = [
        entry(AclWho::Owner, 6),
        entry(AclWho::User(7), 6),
        entry(AclWho::OwningGroup, 4),
        entry(AclWho::Mask, 6),
        entry(AclWho::Others, 0),
    ];
    assert_eq!(narrowed(0o660, &list), 0o640);
    assert_eq!(narrowed(0o6660, &list), 0o640);
    assert_eq!(narrowed(0o1777, &[]), 0o1707);
}

/// As on a mount of another protocol, which answers that it changed the owner and keeps its own.
#[test]
fn an_owner_that_the_file_system_accepted_and_did_not_set_is_lost() {
    let file = tempfile::tempfile().expect("a file");
    let target = Target::open(std::os::fd::AsFd::as_fd(&file));
    let stat = target.stat().expect("open");
    let keeps = AtomicBool::new(true);
    let lost = |uid: u32, gid: u32, known: Lost| {
        let meta = FinalMeta {
            mtime: meta_of(&stat).mtime,
            uid: Some(uid),
            gid: Some(gid),
            ..FinalMeta::default()
        };
        let birth = Birth {
            has_mode: true,
            is_new: true,
            inherits: false,
            keeps: Some(&keeps),
        };
        read_back(&target, &meta, (None, 0), known, birth).expect("looked at")
    };
    let (uid, gid) = (stat.st_uid, stat.st_gid);
    assert_eq!(lost(uid, gid, Lost::NOTHING), Lost::NOTHING);
    assert_eq!(lost(uid + 1, gid, Lost::NOTHING), Lost::OWNER);
    assert_eq!(lost(uid, gid + 1, Lost::NOTHING), Lost::GROUP);
    // The caller knows that one already.
    assert_eq!(lost(uid + 1, gid, Lost::OWNER), Lost::NOTHING);
    let mode = |mode: u32| {
        target.chmod(mode).expect("ours");
        let meta = FinalMeta {
            mtime: meta_of(&stat).mtime,
            uid: Some(uid + 1),
            gid: Some(gid),
            ..FinalMeta::default()
        };
        let birth = Birth {
            has_mode: true,
            is_new: true,
            inherits: false,
            keeps: None,
        };
        let lost = read_back(&target, &meta, (Some(mode), 0o7777), Lost::NOTHING, birth);
        (
            lost.expect("looked at"),
            meta_of(&target.stat().expect("open")).mode,
        )
    };
    assert_eq!(mode(0o4755), (Lost::OWNER | Lost::SET_ID, 0o755));
    assert_eq!(mode(0o755), (Lost::OWNER, 0o755));
}
