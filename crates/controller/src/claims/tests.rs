//! Claims by answers that the tests give: marks, lost nodes, refusals, and random answers by seeds.

use super::*;
use godwit_api::failure::FailureCode;
use godwit_seeded::Seeded;

const SECOND: Duration = Duration::from_secs(1);

fn peer(name: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        addresses: vec![format!("{name}:1")],
        identity: format!("gw1-{name}"),
    }
}

fn refusal(code: FailureCode) -> Refusal {
    Refusal::new(code, code.as_str())
}

/// Answers all due questions at the time as `answer` says; returns the questions.
fn round(
    claims: &mut Claims,
    now: Duration,
    answer: impl Fn(&str, Ask) -> Result<(), Refusal>,
) -> Vec<(String, Ask)> {
    let due = claims.due(now);
    for (peer, ask) in &due {
        claims.answered(now, &peer.identity, *ask, answer(&peer.name, *ask));
    }
    due.into_iter()
        .map(|(peer, ask)| (peer.name, ask))
        .collect()
}

fn ready(claims: &Claims) -> Vec<String> {
    claims.ready().map(|peer| peer.name.clone()).collect()
}

fn marks(asked: &[(String, Ask)]) -> Vec<(&str, Mark)> {
    let asked = asked.iter();
    asked.map(|(name, ask)| (name.as_str(), ask.mark)).collect()
}

/// Three nodes that hold the claim.
fn held() -> Claims {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a"), peer("b"), peer("c")]);
    for _ in 0..2 {
        round(&mut claims, SECOND, |_, _| Ok(()));
    }
    assert_eq!(ready(&claims), ["a", "b", "c"]);
    claims
}

#[test]
fn a_lone_node_makes_the_mark_and_is_renewed() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a")]);
    assert_eq!(claims.standing(SECOND), Standing::Open);
    let asked = round(&mut claims, SECOND, |_, _| Ok(()));
    assert_eq!(marks(&asked), [("a", Mark::Make)]);
    assert_eq!((ready(&claims).len(), claims.waits(SECOND)), (1, false));
    assert!(round(&mut claims, 2 * SECOND, |_, _| Ok(())).is_empty());
    let asked = round(&mut claims, 5 * SECOND, |_, _| Ok(()));
    assert!(!asked[0].1.sets);
}

#[test]
fn a_site_that_names_other_addresses_each_time_changes_them_at_a_pace() {
    let mut claims = held();
    let named = |turn: u32| {
        let moved = Peer {
            addresses: vec![format!("a:{turn}")],
            ..peer("a")
        };
        vec![moved, peer("b"), peer("c")]
    };
    let all = |claims: &Claims| claims.all().cloned().collect::<Vec<Peer>>();
    let mut changes = 0;
    for turn in 1..=200 {
        let before = all(&claims);
        claims.serving(3 * SECOND * turn, named(turn));
        changes += u32::from(all(&claims) != before);
    }
    assert!((30..40).contains(&changes), "{changes} in ten minutes");
    let last = all(&claims);
    claims.serving(630 * SECOND, named(201));
    assert_ne!(all(&claims), last);
    claims.serving(631 * SECOND, named(202));
    assert_eq!(all(&claims), named(201));
}

#[test]
fn a_node_that_makes_no_mark_is_used_alone() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a"), peer("b")]);
    let answer = |_: &str, ask: Ask| match ask.mark {
        Mark::Make => Err(refusal(code::PERMISSION)),
        _ => Ok(()),
    };
    let asked = round(&mut claims, SECOND, answer);
    assert_eq!(marks(&asked), [("a", Mark::Make)]);
    assert_eq!(claims.standing(SECOND), Standing::Open);
    let asked = round(&mut claims, SECOND, answer);
    assert_eq!(marks(&asked), [("a", Mark::Untouched)]);
    assert_eq!(claims.standing(SECOND), Standing::Held);
    assert!(round(&mut claims, SECOND, answer).is_empty());
    assert_eq!(ready(&claims), ["a"]);
}

#[test]
fn a_full_destination_refuses_the_claim_and_no_node_is_used_without_a_mark() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a"), peer("b")]);
    let full = |_: &str, ask: Ask| match ask.mark {
        Mark::Make => Err(refusal(code::NO_SPACE)),
        _ => Ok(()),
    };
    round(&mut claims, SECOND, full);
    round(&mut claims, SECOND, full);
    let standing = claims.standing(SECOND);
    assert_eq!(standing, Standing::Refused(refusal(code::NO_SPACE)));
}

#[test]
fn an_attempt_after_the_end_of_the_work_makes_a_mark_again() {
    let mut claims = Claims::new(SECOND, vec![peer("a")], true);
    claims.was_released();
    claims.serving(SECOND, vec![peer("a")]);
    let asked = round(&mut claims, SECOND, |_, _| Ok(()));
    assert_eq!(marks(&asked), [("a", Mark::Make)]);
    assert_eq!(ready(&claims), ["a"]);
}

#[test]
fn a_claim_that_is_refused_with_and_without_a_mark_is_refused() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a")]);
    let no = |_: &str, _: Ask| Err(refusal(code::PERMISSION));
    for standing in [Standing::Open, Standing::Refused(refusal(code::PERMISSION))] {
        round(&mut claims, SECOND, no);
        assert_eq!(claims.standing(SECOND), standing);
    }
}

#[test]
fn further_nodes_are_used_once_they_see_the_mark() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a"), peer("b"), peer("c")]);
    let answer = |name: &str, ask: Ask| match (name, ask.mark) {
        ("c", Mark::Expect) => Err(refusal(code::OTHER_PLACE)),
        _ => Ok(()),
    };
    let asked = round(&mut claims, SECOND, answer);
    assert_eq!(marks(&asked), [("a", Mark::Make)]);
    assert_eq!(ready(&claims), ["a"]);
    let asked = round(&mut claims, SECOND, answer);
    assert_eq!(marks(&asked), [("b", Mark::Expect), ("c", Mark::Expect)]);
    assert_eq!(ready(&claims), ["a", "b"]);
    assert_eq!(claims.left_out().len(), 1);
    assert!(claims.left_out().is_empty());
    // No node sent to it, so the controller does not wait for it.
    assert!(!claims.waits(SECOND));
    assert!(round(&mut claims, 2 * SECOND, answer).is_empty());
}

#[test]
fn a_node_that_sees_another_place_never_takes_the_place_of_the_good_one() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    claims.serving(SECOND, vec![peer("a"), peer("b")]);
    let odd = |gone: bool| {
        move |name: &str, ask: Ask| match (name, ask.mark) {
            ("b", Mark::Expect) => Err(refusal(code::OTHER_PLACE)),
            ("a", _) if gone => Err(refusal(code::UNREACHABLE)),
            _ => Ok(()),
        }
    };
    for second in 1..4 {
        round(&mut claims, second * SECOND, odd(false));
    }
    assert_eq!(ready(&claims), ["a"]);
    // The good node does not answer, and its cluster has lost it.
    for second in 5..70 {
        round(&mut claims, second * SECOND, odd(true));
        assert!(ready(&claims).is_empty(), "at {second} s");
    }
    claims.serving(70 * SECOND, vec![peer("b")]);
    let mut next = Claims::new(Duration::ZERO, vec![peer("a"), peer("b")], true);
    next.serving(Duration::ZERO, vec![peer("b")]);
    for second in 70..200 {
        round(&mut claims, second * SECOND, odd(true));
        round(&mut next, second * SECOND, odd(true));
        assert!(ready(&claims).is_empty() && ready(&next).is_empty());
    }
    assert!(matches!(
        claims.standing(200 * SECOND),
        Standing::Refused(_)
    ));
    // The node returns, with or without its file system.
    claims.serving(201 * SECOND, vec![peer("a"), peer("b")]);
    round(&mut claims, 201 * SECOND, odd(false));
    assert_eq!(ready(&claims), ["a"]);
}

#[test]
fn a_node_out_of_reach_holds_the_end_back_for_one_lease() {
    let mut claims = held();
    let gone = |name: &str, _: Ask| match name {
        "b" => Err(refusal(code::UNREACHABLE)),
        _ => Ok(()),
    };
    round(&mut claims, 4 * SECOND, gone);
    assert_eq!(ready(&claims), ["a", "c"]);
    assert!(claims.waits(5 * SECOND) && claims.standing(5 * SECOND) == Standing::Held);
    // Trying again does not make it longer.
    for second in 5..30 {
        round(&mut claims, second * SECOND, gone);
    }
    assert!(!claims.waits(SECOND + LEASE));
    // It returns: transfers begun there before end.
    let mut all = Vec::new();
    for second in 31..36 {
        all.extend(round(&mut claims, second * SECOND, |_, _| Ok(())));
    }
    let fenced = all
        .iter()
        .filter(|(name, ask)| name == "b" && ask.fences_all);
    assert_eq!(fenced.count(), 1);
    assert!(all.iter().any(|(_, ask)| ask.mark == Mark::Expect));
    assert_eq!(ready(&claims), ["a", "b", "c"]);
    assert!(!claims.waits(36 * SECOND));
}

#[test]
fn a_stopped_node_gets_nothing_more_and_holds_the_end_back_for_two_leases_at_most() {
    let mut claims = held();
    let asked = claims.due(4 * SECOND);
    assert_eq!(asked.len(), 3);
    for (peer, ask) in asked.iter().filter(|(peer, _)| peer.name != "b") {
        claims.answered(4 * SECOND, &peer.identity, *ask, Ok(()));
    }
    // Before its question ends.
    round(&mut claims, 4 * SECOND + LATE, |_, _| Ok(()));
    assert_eq!(ready(&claims), ["a", "c"]);
    let (stopped, ask) = &asked[1];
    let given_up = || Err(refusal(code::GIVEN_UP));
    claims.answered(9 * SECOND, &stopped.identity, *ask, given_up());
    claims.members_changed(9 * SECOND);
    for second in 10..40 {
        let asked = round(&mut claims, second * SECOND, |name, _| match name {
            "b" => given_up(),
            _ => Ok(()),
        });
        let mut of_b = asked.iter().filter(|(name, _)| name == "b");
        assert!(of_b.all(|(_, ask)| ask.probes && !ask.sets));
    }
    // The claim was renewed at 1 s, and the node may have received the question of 4 s just before that lease ended.
    assert!(claims.waits(4 * SECOND + LEASE));
    let probes = 8 * SECOND;
    assert!(!claims.waits(SECOND + 2 * LEASE + probes));
    // The node runs again, and first gets all fences that it missed.
    let mut all = Vec::new();
    for second in 41..46 {
        let asked = round(&mut claims, second * SECOND, |_, ask| match ask.probes {
            true => Err(refusal(code::NO_SUCH_CLAIM)),
            false => Ok(()),
        });
        all.extend(asked);
    }
    let fenced = all.iter().any(|(name, ask)| name == "b" && ask.fences_all);
    assert!(fenced && ready(&claims).contains(&"b".to_owned()));
}

#[test]
fn a_node_that_was_silent_for_a_moment_hears_what_it_missed_first() {
    let mut claims = held();
    let asked = claims.due(4 * SECOND);
    round(&mut claims, 4 * SECOND + LATE, |_, _| Ok(()));
    assert!(ready(&claims).is_empty());
    claims.members_changed(4 * SECOND + LATE);
    for (peer, ask) in asked {
        claims.answered(5 * SECOND + LATE, &peer.identity, ask, Ok(()));
    }
    // Their leases hold, except those fenced meanwhile.
    assert!(ready(&claims).is_empty());
    let asked = round(&mut claims, 5 * SECOND + LATE, |_, _| Ok(()));
    assert!(asked.iter().all(|(_, ask)| ask.sets && ask.fences_all));
    assert_eq!(ready(&claims), ["a", "b", "c"]);
}

#[test]
fn a_node_that_serves_no_more_holds_the_end_back_too() {
    let mut claims = held();
    let asked = claims.due(4 * SECOND);
    assert_eq!(asked.len(), 3);
    claims.serving(4 * SECOND, vec![peer("a"), peer("c")]);
    assert!(claims.waits(4 * SECOND));
    for (peer, ask) in asked {
        claims.answered(5 * SECOND, &peer.identity, ask, Ok(()));
    }
    assert_eq!(ready(&claims), ["a", "c"]);
    assert!(claims.waits(4 * SECOND + LEASE) && !claims.waits(5 * SECOND + LEASE));
    // It returns, and the transfers begun there before end.
    claims.serving(30 * SECOND, vec![peer("a"), peer("b"), peer("c")]);
    let mut all = Vec::new();
    for second in 30..35 {
        all.extend(round(&mut claims, second * SECOND, |_, _| Ok(())));
    }
    assert!(all.iter().any(|(name, ask)| name == "b" && ask.fences_all));
    assert_eq!(ready(&claims), ["a", "b", "c"]);
}

#[test]
fn each_node_learns_of_other_members() {
    let mut claims = held();
    claims.members_changed(2 * SECOND);
    let order = claims.order();
    assert!(!claims.all_know(order));
    let asked = round(&mut claims, 2 * SECOND, |_, _| Ok(()));
    assert!(asked.iter().all(|(_, ask)| ask.sets && !ask.fences_all));
    assert!(claims.all_know(order));
}

#[test]
fn an_earlier_controller_is_waited_for() {
    let mut claims = Claims::new(SECOND, vec![peer("a"), peer("b")], true);
    claims.serving(SECOND, vec![peer("a")]);
    round(&mut claims, SECOND, |_, _| Ok(()));
    assert!(claims.waits(2 * SECOND), "b may have members");
    assert!(claims.waits(2 * SECOND + LEASE), "it may have been renewed");
    assert!(!claims.waits(20 * SECOND + LEASE));
}

#[test]
fn an_older_destination_a_refusal_and_silence_differ() {
    let alone = |word: FailureCode| {
        let mut claims = Claims::new(SECOND, Vec::new(), false);
        claims.serving(SECOND, vec![peer("a")]);
        round(&mut claims, SECOND, |_, _| Err(refusal(word)));
        claims
    };
    let old = alone(code::UNSUPPORTED).standing(SECOND);
    assert!(matches!(old, Standing::Unsupported(_)), "{old:?}");
    let no = alone(code::NOT_GRANTED).standing(SECOND);
    assert!(matches!(no, Standing::Refused(_)), "{no:?}");
    let silent = alone(code::UNREACHABLE);
    assert_eq!(silent.standing(2 * SECOND), Standing::Open);
    let late = silent.standing(2 * SECOND + CLAIM_WITHIN);
    assert!(matches!(late, Standing::Refused(_)), "{late:?}");
}

/// As the setting `nodes` does it. Otherwise a job would wait without end for a site with many nodes of which none answers.
#[test]
fn silent_nodes_that_replace_each_other_end_the_attempt_in_time() {
    let mut claims = Claims::new(SECOND, Vec::new(), false);
    let mut ended = None;
    for turn in 1..200 {
        let now = SECOND * turn;
        claims.serving(now, vec![peer(&format!("n{turn}"))]);
        if let Standing::Refused(why) = claims.standing(now) {
            ended = Some((turn, why));
            break;
        }
        round(&mut claims, now, |_, _| Err(refusal(code::UNREACHABLE)));
    }
    let (turn, why) = ended.expect("an end");
    assert!(why.code == code::UNREACHABLE, "{why}");
    assert_eq!(SECOND * turn, SECOND + CLAIM_WITHIN);
    // A node that takes the claim begins the time again.
    let now = SECOND * turn;
    claims.serving(now, vec![peer("a")]);
    for _ in 0..2 {
        round(&mut claims, now, |_, _| Ok(()));
    }
    assert_eq!(claims.standing(now), Standing::Held);
    claims.serving(now + SECOND, vec![peer("b")]);
    assert_eq!(claims.standing(now + SECOND), Standing::Open);
}

#[test]
fn whatever_nodes_answered_all_that_answer_are_used_in_the_end() {
    let words = [
        code::UNKNOWN_IDENTITY,
        code::UNREACHABLE,
        code::BROKEN,
        code::OTHER_PLACE,
        code::NO_SUCH_CLAIM,
    ];
    for seed in 0..1_000_u64 {
        let mut random = Seeded(seed);
        let mut claims = Claims::new(Duration::ZERO, Vec::new(), false);
        let peers = vec![peer("a"), peer("b"), peer("c")];
        claims.serving(Duration::ZERO, peers.clone());
        let mut flying: Vec<(Peer, Ask)> = Vec::new();
        let mut now = Duration::ZERO;
        for step in 0..1_000_u32 {
            now += Duration::from_millis(100);
            flying.extend(claims.due(now));
            // Trouble ends; one node stays away.
            let trouble = step < 150;
            if trouble && random.draw().is_multiple_of(20) {
                claims.members_changed(now);
            }
            while !flying.is_empty() {
                if trouble && random.draw().is_multiple_of(2) {
                    break;
                }
                let (peer, ask) = flying.remove(0);
                let word = words[(random.draw() % 5) as usize];
                let fails = trouble && random.draw().is_multiple_of(3);
                let answer = match peer.name.as_str() {
                    "a" if step > 100 => Err(refusal(code::UNREACHABLE)),
                    _ if fails => Err(refusal(word)),
                    _ => Ok(()),
                };
                claims.answered(now, &peer.identity, ask, answer);
            }
        }
        assert_eq!(ready(&claims), ["b", "c"], "seed {seed}: {claims:#?}");
        assert!(!claims.waits(now), "seed {seed}");
        assert!(claims.all_know(claims.order()), "seed {seed}");
    }
}

#[test]
fn a_node_that_goes_and_comes_is_remembered_once() {
    let mut claims = held();
    for turn in 1..20_u32 {
        let now = 100 * turn * SECOND;
        claims.serving(now, vec![peer("a")]);
        let again = now + 50 * SECOND;
        claims.serving(again, vec![peer("a"), peer("b"), peer("c")]);
        for _ in 0..3 {
            round(&mut claims, again, |_, _| Ok(()));
        }
        assert_eq!(ready(&claims), ["a", "b", "c"]);
        assert_eq!(claims.lost.len(), 2);
    }
}

#[test]
fn nodes_that_have_not_confirmed_that_their_calls_have_ended_are_named() {
    let mut claims = held();
    assert!(claims.unconfirmed().is_empty());
    let hangs = |name: &str, _: Ask| match name {
        "c" => Err(refusal(code::GIVEN_UP)),
        _ => Ok(()),
    };
    round(&mut claims, 4 * SECOND, hangs);
    assert_eq!(claims.unconfirmed(), ["c"]);
    // Its site no longer names it, and it is forgotten.
    for seconds in [5, 40, 80] {
        let now = seconds * SECOND;
        claims.serving(now, vec![peer("a"), peer("b")]);
        round(&mut claims, now, hangs);
        assert_eq!(claims.unconfirmed(), ["c"]);
    }
    claims.serving(81 * SECOND, vec![peer("a"), peer("b"), peer("c")]);
    assert_eq!(claims.unconfirmed(), ["c"], "it has not answered yet");
    for _ in 0..3 {
        round(&mut claims, 81 * SECOND, |_, _| Ok(()));
    }
    assert!(claims.unconfirmed().is_empty());
}
