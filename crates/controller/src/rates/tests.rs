//! Tests of the pairs by rate: unequal nodes, noise, nodes that come and go, and properties of all pairs.
//! Sends nothing.

use super::*;

/// Nodes with links of these rates in Mbit/s. A node is as fast as its link.
struct Net {
    sources: Vec<f64>,
    targets: Vec<f64>,
}

impl Net {
    fn names(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|at| format!("{prefix}{at}")).collect()
    }

    /// The rates of sources that send to these places: equal shares, but for those that cannot use theirs.
    fn rates(&self, to: &[usize]) -> Vec<f64> {
        let mut rates = vec![0.0; to.len()];
        for (place, capacity) in self.targets.iter().enumerate() {
            let mut here: Vec<usize> = (0..to.len()).filter(|at| to[*at] == place).collect();
            here.sort_by(|one, other| self.sources[*one].total_cmp(&self.sources[*other]));
            let mut left = *capacity;
            for (done, at) in here.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
                let share = left / (here.len() - done) as f64;
                rates[*at] = self.sources[*at].min(share);
                left -= rates[*at];
            }
        }
        rates
    }

    /// Returns the sum of all rates in each second, and the number of changed pairs. A lease lasts `lease` seconds. Rates differ by `noise`; with
    /// `moves` a running transfer follows its pair at once.
    fn run(&self, seconds: usize, lease: usize, noise: f64, moves: bool) -> (Vec<f64>, usize) {
        let (sources, targets) = (
            Self::names("s", self.sources.len()),
            Self::names("d", self.targets.len()),
        );
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut rates = Rates::default();
        let mut named: Vec<Option<usize>> = vec![None; sources.len()];
        let mut running: Vec<usize> = Vec::new();
        let (mut sums, mut changes) = (Vec::new(), 0);
        for second in 0..seconds {
            let wanted = rates.spread(&sources, &targets, &named);
            let wanted: Vec<Option<usize>> = wanted
                .iter()
                .map(|places| places.first().copied())
                .collect();
            changes += usize::from(second > 0 && wanted != named);
            named = wanted;
            // A running transfer keeps its destination.
            if second == 0 {
                running = named.iter().flatten().copied().collect();
            }
            for (at, place) in running.iter_mut().enumerate() {
                if (second + at) % lease == 0 || moves {
                    *place = named[at].expect("a place");
                }
            }
            let now = self.rates(&running);
            sums.push(now.iter().sum());
            let reported = now.iter().enumerate().map(|(at, rate)| {
                let wave = if (second * 7 + at * 3) % 2 == 0 {
                    1.0
                } else {
                    1.0 - noise
                };
                Traffic {
                    node: sources[at].to_owned(),
                    to: targets[running[at]].to_owned(),
                    bytes_per_second: rate * wave,
                    streams: 4,
                    ..Traffic::default()
                }
            });
            rates.saw(reported.collect());
        }
        (sums, changes)
    }
}

#[test]
fn unequal_nodes_reach_what_the_narrower_site_carries() {
    for targets in [[470.0, 820.0], [820.0, 470.0]] {
        let orders = [
            [130.0, 470.0, 820.0],
            [130.0, 820.0, 470.0],
            [470.0, 130.0, 820.0],
            [820.0, 470.0, 130.0],
        ];
        for (sources, moves) in orders
            .into_iter()
            .flat_map(|one| [(one, false), (one, true)])
        {
            let net = Net {
                sources: sources.to_vec(),
                targets: targets.to_vec(),
            };
            let (sums, changes) = net.run(90, 5, 0.1, moves);
            let late = &sums[50..];
            #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            assert!(mean >= 0.95 * 1290.0, "{sources:?} {targets:?}: {mean}");
            assert!(changes <= 8, "{changes} changes");
        }
    }
}

#[test]
fn equal_nodes_stay_in_the_ring() {
    for (sources, targets) in [(2, 2), (4, 2), (4, 4), (6, 3)] {
        let net = Net {
            sources: vec![400.0; sources],
            targets: vec![400.0; targets],
        };
        assert_eq!(net.run(60, 5, 0.2, false).1, 0, "{sources} to {targets}");
    }
}

#[test]
fn noise_moves_no_pairs() {
    let net = Net {
        sources: vec![130.0, 470.0, 820.0],
        targets: vec![470.0, 820.0],
    };
    let still = net.run(200, 5, 0.0, false).1;
    assert!(net.run(200, 5, 0.3, false).1 <= still + 1);
}

#[test]
fn a_source_with_several_destinations_passes_over_slow_ones() {
    let mut rates = Rates::default();
    for (to, rate) in [("d0", 100.0), ("d1", 10.0)] {
        for _ in 0..SEEN_AFTER {
            rates.saw(vec![Traffic {
                node: "s".to_owned(),
                to: to.to_owned(),
                bytes_per_second: rate,
                streams: 1,
                ..Traffic::default()
            }]);
        }
    }
    let spread = rates.spread(&["s"], &["d0", "d1", "d2"], &[None]);
    assert_eq!(spread, [[0, 2]]);
}

#[test]
fn each_node_has_its_part_whatever_was_seen() {
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(random >> 33).expect("small") % below.max(1)
    };
    for _ in 0..2_000 {
        let (sources, targets) = (Net::names("s", next(7)), Net::names("d", next(6)));
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut rates = Rates::default();
        for _ in 0..next(30) {
            let reported = (0..next(9)).map(|_| Traffic {
                node: format!("s{}", next(8)),
                to: format!("d{}", next(7)),
                #[expect(clippy::cast_precision_loss, reason = "a small number")]
                bytes_per_second: next(1_000) as f64,
                streams: 1,
                ..Traffic::default()
            });
            rates.saw(reported.collect());
        }
        let before: Vec<Option<usize>> = sources
            .iter()
            .map(|_| Some(next(targets.len() + 1)).filter(|place| *place < targets.len()))
            .collect();
        let spread = rates.spread(&sources, &targets, &before);
        assert_eq!(spread, rates.spread(&sources, &targets, &before));
        assert_eq!(spread.len(), sources.len());
        if targets.is_empty() {
            assert!(spread.iter().all(Vec::is_empty));
            continue;
        }
        assert!(spread.iter().all(|places| !places.is_empty()), "{spread:?}");
        let named = |place: usize| spread.iter().any(|places| places.contains(&place));
        if sources.len() >= targets.len() {
            assert!((0..targets.len()).all(named), "{spread:?}");
        }
        assert!(spread.iter().flatten().all(|place| *place < targets.len()));
        // Once no source is tried any more, the pairs stay.
        let kept: Vec<Option<usize>> = spread
            .iter()
            .map(|places| places.first().copied())
            .collect();
        assert_eq!(rates.spread(&sources, &targets, &kept), spread);
    }
}

#[test]
fn a_destination_that_stalls_while_others_do_not_is_passed_over_for_a_while() {
    let mut rates = Rates::default();
    let mut spread = |seconds: u32, reported: [f64; 2]| {
        for _ in 0..seconds {
            let reported = reported.iter().enumerate().map(|(at, rate)| Traffic {
                node: format!("s{at}"),
                to: format!("d{at}"),
                bytes_per_second: *rate,
                streams: 4,
                ..Traffic::default()
            });
            rates.saw(reported.collect());
        }
        rates.spread(&["s0", "s1"], &["d0", "d1"], &[Some(0), Some(1)])
    };
    let (ring, others) = (vec![vec![0], vec![1]], vec![vec![0], vec![0]]);
    assert_eq!(spread(20, [1e8, 1e8]), ring);
    assert_eq!(spread(STALLS_AFTER - 1, [1e8, 1.0]), ring);
    assert_eq!(spread(1, [1e8, 1.0]), others);
    // Both of them do, as where the source is slow.
    assert_eq!(spread(PASSED_OVER_FOR, [0.0, 0.0]), ring);
    assert_eq!(spread(20, [0.0, 0.0]), ring);
}
