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
