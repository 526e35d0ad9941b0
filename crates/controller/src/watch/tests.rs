//! Tests of the watch: paths with a fixed capacity, losses, nodes that fall silent.
//! Sends nothing.

use super::*;

/// A path that carries `capacity` bytes a second; data beyond that is lost, which lowers the rate.
struct Path {
    capacity: f64,
    each: f64,
    passed: BTreeMap<String, (f64, f64)>,
}

impl Path {
    fn new(capacity: f64) -> Self {
        Self {
            capacity,
            each: 100e6,
            passed: BTreeMap::new(),
        }
    }

    fn rate(&self, nodes: usize) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
        let wanted = nodes as f64 * self.each;
        let over = (wanted / self.capacity - 1.0).max(0.0);
        wanted.min(self.capacity) * (1.0 - 0.1 * over)
    }

    /// One second in which these nodes send.
    fn second(&mut self, sending: &[String]) -> Vec<Traffic> {
        #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
        let count = sending.len() as f64;
        let share = self.rate(sending.len()) / count;
        let lost = (self.each - share).max(0.0);
        let traffic = sending.iter().map(|node| {
            let sum = self.passed.entry(node.clone()).or_default();
            (sum.0, sum.1) = (sum.0 + share + lost, sum.1 + lost);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "below 2^53"
            )]
            let bytes = |sum: f64| sum as u64;
            Traffic {
                node: node.clone(),
                bytes_per_second: share,
                passed_bytes: bytes(sum.0),
                resent_bytes: bytes(sum.1),
                streams: 4,
                ..Traffic::default()
            }
        });
        traffic.collect()
    }
}

fn crew(count: usize) -> Vec<String> {
    (0..count).map(|node| format!("n{node}")).collect()
}

fn sending(watch: &Watch, crew: &[String]) -> Vec<String> {
    let sends = crew
        .iter()
        .filter(|node| !watch.resting().any(|one| one == *node));
    sends.cloned().collect()
}

/// The number of nodes that send after these seconds, and the bytes that they moved.
fn run(watch: &mut Watch, path: &mut Path, crew: &[String], seconds: std::ops::Range<u64>) -> f64 {
    let mut moved_bytes = 0.0;
    for second in seconds {
        let sends = sending(watch, crew);
        let mut reported = path.second(&sends);
        moved_bytes += reported.iter().map(|one| one.bytes_per_second).sum::<f64>();
        reported.extend(watch.resting().map(|node| Traffic {
            node: node.clone(),
            ..Traffic::default()
        }));
        let holds = |node: &str| sends.iter().any(|one| one == node);
        watch.look(Duration::from_secs(second), crew, || reported, holds);
    }
    moved_bytes
}

#[test]
fn nodes_rest_where_more_of_them_oversubscribe_the_path() {
    for (count, capacity, best) in [(8, 250e6, 3), (4, 100e6, 1), (3, 150e6, 2)] {
        let (mut watch, mut path) = (Watch::new(), Path::new(capacity));
        let crew = crew(count);
        let all = path.rate(count);
        let moved_bytes = run(&mut watch, &mut path, &crew, 0..1_200);
        let sends = sending(&watch, &crew).len();
        assert!((best..=best + 1).contains(&sends), "{count}: {sends} send");
        assert!(moved_bytes > all * 1_200.0, "{count}: it cost rate");
    }
}

#[test]
fn where_the_path_carries_all_nodes_none_ever_rests() {
    let (mut watch, mut path) = (Watch::new(), Path::new(1e9));
    let crew = crew(8);
    for part in 0..20 {
        run(&mut watch, &mut path, &crew, part * 60..part * 60 + 60);
        assert_eq!(watch.resting().count(), 0);
    }
}

/// Nodes that send, each with the same rate and the same losses, and those that rest.
fn lossy(watch: &Watch, crew: &[String], second: u64) -> Vec<Traffic> {
    let tells = |node: &String| match watch.resting().any(|one| one == node) {
        true => Traffic {
            node: node.clone(),
            ..Traffic::default()
        },
        false => Traffic {
            node: node.clone(),
            bytes_per_second: 1e8,
            passed_bytes: second * 110_000_000,
            resent_bytes: second * 10_000_000,
            streams: 4,
            ..Traffic::default()
        },
    };
    crew.iter().map(tells).collect()
}

#[test]
fn losses_that_are_not_of_the_nodes_making_cost_little() {
    for count in [2, 4, 20, 64] {
        let (mut watch, crew) = (Watch::new(), crew(count));
        let mut moved_bytes = 0.0;
        for second in 0..3_600_u64 {
            let reported = lossy(&watch, &crew, second);
            moved_bytes += reported.iter().map(|one| one.bytes_per_second).sum::<f64>();
            let sends: Vec<String> = reported
                .iter()
                .filter(|one| one.streams > 0)
                .map(|one| one.node.clone())
                .collect();
            let holds = |node: &str| sends.iter().any(|one| one == node);
            watch.look(Duration::from_secs(second), &crew, || reported, holds);
        }
        #[allow(clippy::cast_precision_loss, reason = "a few nodes")]
        let all = 1e8 * count as f64 * 3_600.0;
        assert!(moved_bytes > 0.97 * all, "{count}: {}", moved_bytes / all);
    }
}

#[test]
fn a_node_that_keeps_sending_while_it_should_rest_proves_nothing() {
    let (mut watch, crew) = (Watch::new(), crew(4));
    for second in 0..3_600_u64 {
        let reported = lossy(&Watch::new(), &crew, second);
        watch.look(Duration::from_secs(second), &crew, || reported, |_| true);
    }
    assert!(watch.decided().is_empty(), "nothing was measured");
}

#[test]
fn when_a_node_is_lost_all_others_send() {
    let (mut watch, mut path) = (Watch::new(), Path::new(200e6));
    let four = crew(4);
    run(&mut watch, &mut path, &four, 0..600);
    assert!(watch.resting().count() > 0);
    run(&mut watch, &mut path, &four[..3], 600..602);
    assert_eq!(watch.resting().count(), 0);
}

#[test]
fn when_those_that_send_are_lost_those_that_rest_send() {
    let (mut watch, mut path) = (Watch::new(), Path::new(100e6));
    let two = crew(2);
    run(&mut watch, &mut path, &two, 0..300);
    let rests: Vec<String> = watch.resting().cloned().collect();
    assert_eq!(rests.len(), 1);
    let alive = Traffic {
        node: rests[0].clone(),
        ..Traffic::default()
    };
    for second in 300..330 {
        let reported = vec![alive.clone()];
        // The node has lost its lease.
        watch.look(Duration::from_secs(second), &two, || reported, |_| false);
    }
    let rests = |node: &String| watch.resting().any(|one| one == node);
    assert!(!rests(&alive.node));
    assert_eq!(two.iter().filter(|node| rests(node)).count(), 1);
    // The watch does not learn that the other node is lost.
    let mut watch = Watch::new();
    run(&mut watch, &mut path, &two, 0..300);
    assert_eq!(watch.resting().count(), 1);
    for second in 300..330 {
        let reported = vec![alive.clone()];
        watch.look(
            Duration::from_secs(second),
            &two,
            || reported,
            |node| node != alive.node,
        );
    }
    assert_eq!(watch.resting().count(), 0);
}

#[test]
fn where_the_path_widens_nodes_that_rest_send_again() {
    let (mut watch, mut path) = (Watch::new(), Path::new(100e6));
    let crew = crew(4);
    run(&mut watch, &mut path, &crew, 0..600);
    assert_eq!(watch.resting().count(), 3);
    path.capacity = 1e9;
    run(&mut watch, &mut path, &crew, 600..4_000);
    assert_eq!(watch.resting().count(), 0);
}

#[test]
fn a_silent_node_without_work_rests_until_it_answers() {
    let (mut watch, crew) = (Watch::new(), crew(3));
    let reported = |nodes: &[String]| {
        let of = |node: &String| Traffic {
            node: node.clone(),
            ..Traffic::default()
        };
        nodes.iter().map(of).collect::<Vec<_>>()
    };
    let mut look = |seconds: std::ops::Range<u64>, count: usize, holds: bool| {
        for second in seconds {
            let reported = reported(&crew[..count]);
            watch.look(Duration::from_secs(second), &crew, || reported, |_| holds);
        }
        watch.resting().count()
    };
    assert_eq!(look(0..5, 3, false), 0);
    assert_eq!(look(5..30, 2, true), 0);
    assert_eq!(look(30..31, 2, false), 1);
    assert_eq!(look(31..32, 3, false), 0);
}

#[test]
fn a_stream_is_not_silent_while_no_stream_sends() {
    let (mut watch, crew) = (Watch::new(), crew(2));
    let reported = |second| lossy(&Watch::new(), &crew, second);
    watch.look(Duration::from_secs(1), &crew, || reported(1), |_| false);
    // The destination is away for a minute.
    watch.pause();
    watch.look(Duration::from_secs(61), &crew, Vec::new, |_| false);
    assert_eq!((watch.resting().count(), watch.decided()), (0, Vec::new()));
}

#[test]
fn with_older_programs_no_node_rests() {
    let (mut watch, crew) = (Watch::new(), crew(4));
    watch.may_rest(false);
    for second in 0..600 {
        let reported = lossy(&watch, &crew, second);
        watch.look(Duration::from_secs(second), &crew, || reported, |_| true);
    }
    assert_eq!(watch.resting().count(), 0);
}
