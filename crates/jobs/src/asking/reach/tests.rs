//! Tests of the answers to an asker about the sites that it names.
//! Connects to no address: the outcome at each address is made up.

use std::sync::atomic::AtomicUsize;

use godwit_api::ask::{Answer, GoOn, Question};

use super::*;

/// Finds at each site the outcome in the site's name, and counts the dials.
#[derive(Default)]
struct Found(AtomicUsize);

impl AskSites for Found {
    fn ask_for(
        &self,
        _: Option<&godwit_api::grant::Mandate>,
        _: Option<&Peer>,
        _: &Question,
        _: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        panic!("nobody asks")
    }

    fn reach(&self, site: &Peer, _: Duration) -> Result<(), Refusal> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match site.name.as_str() {
            "there" => Ok(()),
            "slow" => {
                std::thread::sleep(WITHIN / 2);
                Err(Refusal::later(code::UNREACHABLE, "timed out"))
            }
            what => Err(Refusal::new(code::BROKEN, format!("{what} at port 22"))),
        }
    }
}

const WITHIN: Duration = Duration::from_millis(200);

fn site(name: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        addresses: vec!["192.0.2.1:22".to_owned()],
        identity: "gw1-a".to_owned(),
    }
}

fn reaching() -> RecentDials {
    RecentDials {
        within: WITHIN,
        ..RecentDials::default()
    }
}

fn ask(reaching: &RecentDials, found: &Found, asker: &str, site: &Peer) -> Result<(), Refusal> {
    reaching.answer(asker, site, found, &AtomicBool::new(false), &|_| {})
}

#[test]
fn every_no_has_one_text_and_one_time() {
    let (reaching, found) = (reaching(), Found::default());
    for name in ["refused", "ssh answers", "no TLS", "no such host", "slow"] {
        let begun = Instant::now();
        let refusal = ask(&reaching, &found, "gw1-b", &site(name)).expect_err("a no");
        let took = begun.elapsed();
        assert_eq!(refusal, not_reached(), "{name}");
        assert!(took >= WITHIN, "{name}: {took:?}");
    }
    ask(&reaching, &found, "gw1-b", &site("there")).expect("a yes");
}

#[test]
fn an_asker_has_few_sites_dialled_and_each_of_them_once() {
    let (reaching, found) = (reaching(), Found::default());
    for _ in 0..100 {
        ask(&reaching, &found, "gw1-b", &site("there")).expect("a yes");
    }
    assert_eq!(found.0.load(Ordering::SeqCst), 1);
    let mut other = site("there");
    let mut refused = None;
    for port in 0..100 {
        other.addresses = vec![format!("192.0.2.1:{port}")];
        if let Err(refusal) = ask(&reaching, &found, "gw1-b", &other) {
            refused.get_or_insert(refusal);
        }
    }
    let refusal = refused.expect("too many");
    assert_eq!(
        (refusal.code.known(), refusal.retryable),
        (Some(code::BUSY), true)
    );
    let dialled = found.0.load(Ordering::SeqCst);
    assert!(dialled <= AT_ONCE as usize + 1, "{dialled}");
    // Another asker has a separate limit.
    ask(&reaching, &found, "gw1-c", &site("there")).expect("a yes");
}

#[test]
fn dials_come_back_with_time_and_no_more_than_at_first() {
    let now = Instant::now();
    let mut asker = Asker::new(now);
    for _ in 0..AT_ONCE {
        asker.take(now).expect("left");
    }
    asker.take(now).expect_err("none left");
    let later = now + ONE_MORE_AFTER;
    asker.take(later).expect("one came back");
    asker.take(later).expect_err("one alone");
    let much_later = now + ONE_MORE_AFTER * 1_000;
    for _ in 0..AT_ONCE {
        asker.take(much_later).expect("all came back");
    }
    asker.take(much_later).expect_err("not more than all");
    assert!(!Asker::new(now).is_of_interest(now), "nothing to remember");
}

#[test]
fn a_site_with_many_addresses_is_refused_undialled() {
    let (reaching, found) = (reaching(), Found::default());
    let mut many = site("there");
    many.addresses = vec!["192.0.2.1".to_owned(); ADDRESSES_MAX + 1];
    let mut long = site("there");
    long.name = "b".repeat(SITE_BYTES_MAX);
    for site in [many, long] {
        let refusal = ask(&reaching, &found, "gw1-b", &site).expect_err("too much");
        assert_eq!(refusal.code, code::INVALID);
    }
    assert_eq!(found.0.load(Ordering::SeqCst), 0);
}

#[test]
fn attempts_that_end_before_the_proof_end_at_few_times() {
    let ends = |took: u64| is_even(Duration::from_millis(took));
    for early in [0, 4, 10_000, 19_999, 20_500, 31_000, 39_900] {
        assert!(!ends(early), "{early}");
    }
    for even in [20_000, 20_100, 40_000, 60_250] {
        assert!(ends(even), "{even}");
    }
}

#[test]
fn a_site_that_is_lost_is_not_tried_at_once() {
    let (reaching, found) = (reaching(), Found::default());
    ask(&reaching, &found, "gw1-b", &site("there")).expect("a yes");
    reaching.lose("gw1-b", &site("there"));
    let refusal = ask(&reaching, &found, "gw1-b", &site("there")).expect_err("lost");
    assert_eq!(refusal, not_reached());
    assert_eq!(found.0.load(Ordering::SeqCst), 1);
}
