//! Tests claims by a clock that the tests control: admission, the end of a lease, and the valid epoch.

use super::*;
use crate::allow::Who;

pub(super) fn identity(letter: &str) -> IdentityId {
    // The last letter encodes only one bit.
    format!("gw1-{}a", letter.repeat(51))
        .parse()
        .expect("an identity")
}

pub(super) fn wish(claim: u8, epoch: u64, path: &str, seconds: u64) -> Wish {
    Wish {
        claim: ClaimId([claim; 16]),
        epoch,
        place: ClaimedPlace {
            asked: path.into(),
            absolute: format!("/srv/{path}").into_bytes(),
        },
        spot: Spot::look(format!("/srv/{path}").as_bytes()).expect("short"),
        members: HashSet::from([identity("a")]),
        fence: HashSet::new(),
        by: By::Here,
        copies: false,
        lease: Duration::from_secs(seconds),
    }
}

fn spots(path: &[u8]) -> Spots {
    Spots::look(&[path.to_vec()])
}

/// Reports that every holder has its rights.
pub(super) fn anybody(_: &By, _: &Text) -> Look<()> {
    Look::Holds
}

/// Reports that all holders except this one have their rights.
fn without(letter: &str) -> impl Fn(&By, &Text) -> Look<()> {
    let holder = identity(letter);
    move |by, _| match by.peer() == Some(holder) {
        true => Look::Gone(()),
        false => Look::Holds,
    }
}

fn member(claim: u8, epoch: u64) -> Member {
    Member {
        claim: vec![claim; 16],
        epoch,
        ..Member::default()
    }
}

#[test]
fn only_members_in_the_right_epoch_below_the_place_get_in() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    table
        .set(wish(1, 5, "data/set", 10), now, &anybody)
        .expect("set");
    let code = |claim, epoch, letter: &str, base: &str| {
        let entered = table.enter(
            &member(claim, epoch),
            identity(letter),
            base.as_bytes(),
            now,
            &anybody,
        );
        entered.err().map(|no| no.code)
    };
    assert_eq!(code(1, 5, "a", "/srv/data/set"), None);
    assert_eq!(code(1, 5, "a", "/srv/data/set/below"), None);
    for (claim, epoch, letter, base, expected) in [
        (2, 5, "a", "/srv/data/set", ErrorCode::BUSY),
        (1, 4, "a", "/srv/data/set", ErrorCode::BUSY),
        (1, 6, "a", "/srv/data/set", ErrorCode::BUSY),
        (1, 5, "q", "/srv/data/set", ErrorCode::NOT_GRANTED),
        (1, 5, "a", "/srv/data", ErrorCode::BUSY),
        (1, 5, "a", "/srv/data/settle", ErrorCode::BUSY),
    ] {
        let got = code(claim, epoch, letter, base);
        assert_eq!(got, Some(expected), "{claim} {epoch} {letter} {base}");
    }
}

#[test]
fn a_lease_that_has_ended_never_holds_again() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let claim = ClaimId([1; 16]);
    let later = |seconds| now + Duration::from_secs(seconds);
    table.set(wish(1, 1, "a", 10), now, &anybody).expect("set");
    let enter = |now| table.enter(&member(1, 1), identity("a"), b"/srv/a", now, &anybody);
    let (lease, _) = enter(now).ok().expect("a member");
    table
        .renew(claim, 1, Duration::from_secs(10), later(9), &By::Here)
        .expect("renewed in time");
    assert!(lease.holds_at(later(18)));
    assert!(!lease.holds_at(later(19)));
    let renewed = table.renew(claim, 1, Duration::from_secs(10), later(18), &By::Here);
    assert_eq!(renewed.expect_err("too late").code, code::NO_SUCH_CLAIM);
    assert!(enter(later(19)).is_err());
    // If the claim is set again, it has a new lease, and earlier entries stay invalid.
    table
        .set(wish(1, 1, "a", 10), later(20), &anybody)
        .expect("set again");
    assert!(enter(later(20)).is_ok());
    assert!(!lease.holds_at(later(20)));
}

#[test]
fn a_higher_epoch_takes_over_and_a_lower_one_never_returns() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let claim = ClaimId([1; 16]);
    table.set(wish(1, 5, "a", 10), now, &anybody).expect("set");
    let (old, _) = table
        .enter(&member(1, 5), identity("a"), b"/srv/a", now, &anybody)
        .ok()
        .expect("a member");
    table
        .set(wish(1, 6, "a", 10), now, &anybody)
        .expect("taken over");
    assert!(!old.holds_at(now));
    let lasts = Duration::from_secs(10);
    assert!(table.set(wish(1, 5, "a", 10), now, &anybody).is_err());
    assert!(table.renew(claim, 5, lasts, now, &By::Here).is_err());
    assert!(table.release(claim, 5, &By::Here).is_err());
    table
        .renew(claim, 6, lasts, now, &By::Here)
        .expect("the one that counts");
    table.release(claim, 6, &By::Here).expect("released");
    assert!(table.renew(claim, 6, lasts, now, &By::Here).is_err());
    // The epoch is remembered.
    assert!(table.set(wish(1, 5, "a", 10), now, &anybody).is_err());
    table
        .set(wish(1, 6, "a", 10), now, &anybody)
        .expect("set again");
}

#[test]
fn others_are_refused_the_place_and_do_not_hear_whose_it_is() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    table
        .set(wish(1, 1, "data/set", 10), now, &anybody)
        .expect("set");
    for path in ["data/set", "data/set/below", "data"] {
        let other = table
            .set(wish(2, 1, path, 10), now, &anybody)
            .expect_err(path);
        let plain = format!("/srv/{path}").into_bytes();
        let refused = |asked: &[u8]| table.refuses(&spots(&plain), asked, now, &anybody);
        let no = refused(path.as_bytes()).expect(path);
        assert_eq!(no.code, ErrorCode::BUSY);
        // A peer hears only the name by which it asked.
        for said in [other.message, no.message] {
            assert!(said.starts_with(&format!("{path}, or a place")), "{said}");
            assert!(said.contains("is claimed for"), "{said}");
        }
        let no = refused(b"team/sub").expect(path);
        assert!(!no.message.contains("data"), "{}", no.message);
    }
    // The claimed place has a different name in the export of the peer.
    let team = Wish {
        place: ClaimedPlace {
            asked: "team/sub".into(),
            absolute: b"/srv/data/set/team/sub".to_vec(),
        },
        spot: Spot::look(b"/srv/data/set/team/sub").expect("short"),
        ..wish(2, 1, "team/sub", 10)
    };
    let no = table.set(team, now, &anybody).expect_err("claimed");
    assert!(!no.message.contains("data"), "{no}");
    assert!(
        table
            .refuses(&spots(b"/srv/data/other"), b"", now, &anybody)
            .is_none()
    );
    table
        .set(wish(2, 1, "data/other", 10), now, &anybody)
        .expect("beside");
    assert_eq!(table.tags(now).len(), 2);
    let after = now + Duration::from_secs(10);
    assert!(
        table
            .refuses(&spots(b"/srv/data/set"), b"", after, &anybody)
            .is_none()
    );
    assert!(table.tags(after).is_empty());
}

#[test]
fn the_table_is_bounded_and_forgets_ended_claims_first() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    for number in 0..CLAIMS_MAX {
        let mut wish = wish(0, 1, &format!("d{number}"), 10);
        wish.claim.0[..8].copy_from_slice(&number.to_le_bytes());
        table.set(wish, now, &anybody).expect("room");
    }
    assert!(table.set(wish(9, 1, "more", 10), now, &anybody).is_err());
    table
        .release(ClaimId([0; 16]), 1, &By::Here)
        .expect("released");
    table
        .set(wish(9, 1, "more", 10), now, &anybody)
        .expect("the place of the ended one");
}

#[test]
fn transfers_of_fenced_and_removed_members_end_and_later_ones_hold() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let set = |members: &[&str], fence: &[&str]| {
        let identities = |letters: &[&str]| letters.iter().map(|one| identity(one)).collect();
        let wish = Wish {
            members: identities(members),
            fence: identities(fence),
            ..wish(1, 5, "data/set", 10)
        };
        table.set(wish, now, &anybody).expect("set");
    };
    let enter = |letter: &str| {
        let entered = table.enter(
            &member(1, 5),
            identity(letter),
            b"/srv/data/set",
            now,
            &anybody,
        );
        entered.ok().map(|(hold, _)| hold)
    };
    set(&["a", "q", "z"], &[]);
    let holds = ["a", "q", "z"].map(|letter| enter(letter).expect(letter));
    set(&["a", "q"], &["q"]);
    let now_hold: Vec<bool> = holds.iter().map(|hold| hold.holds_at(now)).collect();
    assert_eq!(now_hold, [true, false, false]);
    assert!(enter("q").expect("a member").holds_at(now));
    assert!(enter("z").is_none());
    // A member that was removed and returns does not continue its earlier transfers.
    set(&["a", "q", "z"], &[]);
    assert!(!holds[2].holds_at(now));
    assert!(enter("z").expect("a member").holds_at(now));
    assert!(!holds[0].holds_at(now + Duration::from_secs(10)));
}

#[test]
fn a_claim_ends_with_the_right_of_its_holder_and_one_holder_leaves_room_for_others() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let of = |letter: &str, wish: Wish| Wish {
        by: By::Peer(Who::itself(identity(letter))),
        ..wish
    };
    let path = |n: usize| format!("data/set{n}");
    for n in 0..CLAIMS_OF_ONE_MAX {
        let claim = ClaimId([u8::try_from(n).unwrap_or(0); 16]);
        let wish = of("a", wish(0, 1, &path(n), 60));
        table
            .set(Wish { claim, ..wish }, now, &anybody)
            .expect("room");
    }
    let one_more = |letter: &str| Wish {
        claim: ClaimId(*b"0123456789abcdef"),
        ..of(letter, wish(0, 1, "data/more", 60))
    };
    assert!(table.set(one_more("a"), now, &anybody).is_err());
    table
        .set(one_more("q"), now, &anybody)
        .expect("room for others");

    // If the holder has lost the right, the claim no longer excludes other claims.
    let without_a = without("a");
    let within = |letter: &str| {
        let claim = ClaimId(*b"fedcba9876543210");
        Wish {
            claim,
            ..of(letter, wish(0, 1, "data/set7/below", 60))
        }
    };
    assert!(table.set(within("q"), now, &anybody).is_err());
    table
        .set(within("q"), now, &without_a)
        .expect("the claim of before has ended");

    let there = spots(b"/srv/data/more");
    assert!(table.refuses(&there, b"", now, &without("a")).is_some());
    assert!(table.refuses(&there, b"", now, &without("q")).is_none());
    // The claim has ended permanently.
    assert!(table.refuses(&there, b"", now, &without("a")).is_none());
}

/// The id of a claim can be guessed, so it is not enough to use the claim.
#[test]
fn a_claim_is_changed_by_its_side_alone() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let by = |letter: &str| Who::itself(identity(letter));
    let of = |letter: &str, wish: Wish| Wish {
        by: By::Peer(by(letter)),
        ..wish
    };
    // The member of the claim is a; q has set the claim.
    table
        .set(of("q", wish(1, 5, "data/set", 60)), now, &anybody)
        .expect("set");
    let claim = ClaimId([1; 16]);
    let stolen = of("e", wish(1, u64::MAX, "data/set", 60));
    let refusal = table.set(stolen, now, &anybody).expect_err("held by q");
    assert_eq!(refusal.code, code::BUSY);
    let lasts = Duration::from_secs(60);
    assert!(
        table
            .renew(claim, 5, lasts, now, &By::Peer(by("e")))
            .is_err()
    );
    assert!(table.release(claim, u64::MAX, &By::Peer(by("e"))).is_err());
    for letter in ["q", "a"] {
        table
            .renew(claim, 5, lasts, now, &By::Peer(by(letter)))
            .expect("of its side");
    }
    // After the end of the claim another peer may use its id, and leaves no epoch that excludes the first peer.
    let after = now + Duration::from_secs(120);
    let taken = of("e", wish(1, u64::MAX, "data/set", 1));
    table.set(taken, after, &anybody).expect("it has ended");
    let later = after + Duration::from_secs(2);
    table
        .set(of("q", wish(1, 6, "data/set", 60)), later, &anybody)
        .expect("set again");
}

/// The asker of a job admits as many identities as it has rules for.
#[test]
fn identities_that_one_asker_let_in_hold_its_claims_together() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let by = |letter: &str, asker: &str| {
        let mandate = godwit_api::grant::Mandate {
            asker: identity(asker).to_string(),
            job: "j".to_owned(),
        };
        Who {
            peer: identity(letter),
            mandate: Some(mandate),
        }
    };
    let set = |n: usize, who: Who| {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&n.to_le_bytes());
        let place = format!("data/{n}");
        let wish = Wish {
            claim: ClaimId(id),
            by: By::Peer(who),
            ..wish(1, 1, &place, 60)
        };
        table.set(wish, now, &anybody)
    };
    for n in 0..CLAIMS_OF_ONE_MAX {
        let letter = if n % 2 == 0 { "b" } else { "c" };
        set(n, by(letter, "q")).expect("room");
    }
    let refusal = set(5_000, by("d", "q")).expect_err("all of the asker's");
    assert!(refusal.message.contains("which is the limit"), "{refusal}");
    set(5_001, Who::itself(identity("q"))).expect_err("the asker itself");
    set(5_002, by("d", "r")).expect("for another asker");
}

/// A removed node holds nothing, and one node leaves room for the others.
#[test]
fn claims_of_a_node_of_the_site_end_with_its_membership() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let set = |n: usize, letter: &str| {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&n.to_le_bytes());
        let place = format!("data/{n}");
        let wish = Wish {
            claim: ClaimId(id),
            by: By::Member(identity(letter)),
            ..wish(1, 1, &place, 3_600)
        };
        table.set(wish, now, &anybody)
    };
    for n in 0..CLAIMS_OF_ONE_MAX {
        set(n, "b").expect("room");
    }
    set(5_000, "b").expect_err("as many as one may hold");
    set(5_001, "q").expect("room for another node");
    let there = spots(b"/srv/data/7/below");
    let without_b = without("b");
    assert!(table.refuses(&there, b"", now, &anybody).is_some());
    assert!(table.refuses(&there, b"", now, &without_b).is_none());
    // As an ordinary peer, the removed node cannot renew its claim.
    let mut id = [1; 16];
    id[..8].copy_from_slice(&8_usize.to_le_bytes());
    let lasts = Duration::from_secs(60);
    let as_peer = By::Peer(Who::itself(identity("b")));
    let renewed = table.renew(ClaimId(id), 1, lasts, now, &as_peer);
    assert_eq!(renewed.expect_err("no member").code, code::NO_SUCH_CLAIM);
}

/// A disk may fail for a moment, and the right still exists afterwards.
#[test]
fn a_claim_whose_right_cannot_be_read_keeps_its_place_and_its_members_stop() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let later = |seconds| now + Duration::from_secs(seconds);
    let unread = |_: &By, _: &Text| Look::Unread(());
    let of_q = Wish {
        by: By::Peer(Who::itself(identity("q"))),
        ..wish(1, 1, "data/set", 60)
    };
    table.set(of_q, now, &anybody).expect("set");
    let entered = |now, may_hold: &MayHold<'_>| {
        let entered = table.enter(
            &member(1, 1),
            identity("a"),
            b"/srv/data/set",
            now,
            may_hold,
        );
        entered.map(|(hold, _)| hold)
    };
    let enter = |now| entered(now, &anybody);
    let hold = enter(now).ok().expect("a member");
    let there = spots(b"/srv/data/set/below");
    // Neither a transfer nor another claim gets the place.
    assert!(table.refuses(&there, b"", later(1), &unread).is_some());
    let other = table.set(wish(2, 1, "data/set", 60), later(2), &unread);
    assert!(other.expect_err("it holds").retryable);
    table.look(later(3), &unread);
    assert!(hold.holds_at(later(3)));
    // A job of this node waits, and does not read the right either.
    assert!(table.keeps_out(&there, later(4)).is_some());
    let long = later(1) + UNREAD_MAX;
    table.look(long, &unread);
    assert!(!hold.holds_at(long), "its writes are refused");
    let no = entered(long, &unread).err().expect("nothing new begins");
    assert!(no.retryable, "{}", no.message);
    // When a member is admitted, the right is found again.
    assert!(enter(later(20)).is_ok());
    assert!(!hold.holds_at(later(20)));
    assert!(enter(later(20)).is_ok());
    assert!(table.refuses(&there, b"", later(20), &anybody).is_some());
    // One failed check does not end the claim; two in a row do.
    table.look(later(21), &without("q"));
    table.look(later(22), &anybody);
    table.look(later(23), &without("q"));
    assert!(enter(later(23)).is_ok());
    table.look(later(24), &without("q"));
    assert!(enter(later(24)).is_err());
}

/// A peer may repeatedly set claims that end at once.
#[test]
fn an_ended_claim_keeps_no_place_and_no_members() {
    let (table, now) = (ClaimTable::default(), Instant::now());
    let later = |seconds| now + Duration::from_secs(seconds);
    let is_empty = |claim: u8| {
        let claims = locked(&table.claims);
        let held = claims.get(&ClaimId([claim; 16])).expect("remembered");
        held.spot.is_empty() && held.members.is_empty()
    };
    for claim in 1..=3 {
        let seconds = if claim == 1 { 1 } else { 60 };
        let wish = wish(claim, 5, &format!("data/{claim}"), seconds);
        table.set(wish, now, &anybody).expect("set");
        assert!(!is_empty(claim));
    }
    table.look(later(2), &anybody);
    assert!(is_empty(1) && !is_empty(2));
    let second = ClaimId([2; 16]);
    table.release(second, 5, &By::Here).expect("released");
    assert!(is_empty(2) && !is_empty(3));
    table
        .set(wish(4, 1, "data/4", 60), later(60), &anybody)
        .expect("set");
    assert!(is_empty(3) && !is_empty(4));
    // The epoch is remembered.
    let earlier = table.set(wish(1, 4, "data/1", 60), later(60), &anybody);
    assert!(earlier.is_err());
    // Members belong to the claim's identities, so an earlier epoch of their own is refused too.
    let of_a = Wish {
        by: By::Peer(Who::itself(identity("a"))),
        ..wish(1, 4, "data/1", 60)
    };
    assert!(table.set(of_a, later(60), &anybody).is_err());
    table
        .set(wish(1, 5, "data/1", 60), later(60), &anybody)
        .expect("set again");
    assert!(!is_empty(1));
}
