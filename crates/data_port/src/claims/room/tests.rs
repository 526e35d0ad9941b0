//! Tests the number of members of claims, and that an ended claim remembers all of them.

use std::time::Duration;

use godwit_api::ask::{MEMBERS_MAX, Mark};
use godwit_net::IdentityId;

use super::super::ClaimTable;
use super::super::tests::{anybody, identity, wish};
use super::*;

fn numbered(count: usize) -> Vec<IdentityId> {
    let members = (0..count).map(|n| {
        let letters: String = n
            .to_le_bytes()
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15].map(|half| char::from(b'a' + half)))
            .collect();
        format!("gw1-{letters}{}a", "b".repeat(51 - letters.len()))
            .parse()
            .expect("an identity")
    });
    members.collect()
}

fn of(peer: IdentityId, members: &[IdentityId], wish: Wish) -> Wish {
    Wish {
        members: members.iter().copied().collect(),
        by: By::Peer(Who::itself(peer)),
        ..wish
    }
}

#[test]
fn claims_of_one_holder_have_a_bounded_number_of_members() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let members = numbered(MEMBERS_OF_ONE_MAX / 8);
    let set = |claim: u8, by: &str| {
        let begin = now + Duration::from_secs(claim.into());
        let wish = wish(claim, 1, &format!("data/{claim}"), 60);
        table.set(of(identity(by), &members, wish), begin, &anybody)
    };
    for claim in 1..=8 {
        set(claim, "a").expect("room");
    }
    set(8, "a").expect("it counts once");
    assert_eq!(set(9, "a").expect_err("too many").code, code::BUSY);
    set(10, "q").expect("room for others");
    // Of ended claims the oldest is dropped, and the others remember all their members.
    let end = |claim: u8, by: &str| {
        let by = By::Peer(Who::itself(identity(by)));
        let ended = table.release(ClaimId([claim; 16]), 1, &by);
        ended.expect("released");
    };
    end(10, "q");
    for claim in [3, 2] {
        end(claim, "a");
    }
    set(9, "a").expect("room of an ended one");
    let known = |claim: u8| table.place_of(ClaimId([claim; 16])).is_some();
    assert_eq!([2, 3, 10].map(known), [false, true, true]);
    let earlier = |claim: u8, member: &IdentityId| {
        let wish = wish(claim, 0, &format!("data/{claim}"), 60);
        table.set(of(*member, &[], wish), now, &anybody)
    };
    for claim in [3, 10] {
        let is_passed = |member: &IdentityId| earlier(claim, member).is_err();
        assert!(members.iter().all(is_passed));
    }
}

/// The controller of an earlier epoch may have been suspended. A claim that treated it as a stranger would
/// admit it.
#[test]
fn an_earlier_epoch_of_a_former_member_never_returns() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let members = numbered(MEMBERS_MAX);
    let claim = ClaimId([1; 16]);
    let set = |by: IdentityId, epoch: u64, members: &[IdentityId]| {
        table.set(
            of(by, members, wish(1, epoch, "data/set", 60)),
            now,
            &anybody,
        )
    };
    let [first, second, third] = [members[0], members[1], members[2]];
    let controller = identity("q");
    set(controller, 4, &members).expect("set");
    set(first, 5, &members).expect("taken over");
    // A removed member counts, and so do those before the last controller.
    set(first, 5, &members[..MEMBERS_MAX - 1]).expect("set again");
    set(second, 6, &[second, third]).expect("taken over");
    // While the claim is valid, a removed member cannot use it.
    let late = set(first, 7, &members).expect_err("removed");
    assert_eq!(late.code, code::BUSY);
    let by = By::Peer(Who::itself(third));
    table.release(claim, 6, &by).expect("released");
    for member in members.iter().chain([&controller]) {
        let refusal = set(*member, 5, &members).expect_err("passed");
        assert_eq!(refusal.code, code::NO_SUCH_CLAIM, "{member}");
    }
}

/// A peer may set claims that end at once as often as it likes. The job of another peer may be paused meanwhile.
#[test]
fn claims_of_one_holder_drop_no_claim_of_another() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let numbered = |number: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        ClaimId(id)
    };
    // Each claim ends before the next one is set.
    let set = |number: usize, by: &str| {
        let begin = now + Duration::from_secs(2 * number as u64);
        let wish = Wish {
            claim: numbered(number),
            ..wish(1, 1, &format!("data/{number}"), 1)
        };
        let set = table.set(of(identity(by), &[], wish), begin, &anybody);
        set.expect("room");
    };
    let known = |number: usize| table.place_of(numbered(number));
    set(0, "q");
    set(1, "q");
    let place = known(0).expect("set");
    table.marked(numbered(0), &place.asked, Mark::Make, None);
    let full = CLAIMS_MAX;
    for number in 2..full + 40 {
        set(number, "a");
    }
    assert_eq!(
        [0, 1, 2, 41].map(|number| known(number).is_some()),
        [true, true, false, false]
    );
    assert!(known(42).is_some());
    for number in full + 40..full + 60 {
        set(number, "b");
    }
    assert!(known(0).is_some() && known(1).is_some());
    assert!(!table.has_remains(), "the mark of the paused job stays");
}
