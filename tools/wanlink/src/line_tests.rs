//! Owns the simulations of the line: many packets, a clock made of numbers.
//! Touches no device.

use super::*;

const MTU: u32 = 1500;

fn config() -> LineConfig {
    LineConfig {
        rate: Rate::from_bits_per_second(1_000_000_000),
        delay: Duration::from_millis(25),
        loss: Loss::default(),
        queue_bytes: 1 << 20,
        seed: 7,
    }
}

/// Offers `count` packets, one each `gap`, and returns each one's arrival, taken at the moment the line asks for.
fn run(config: LineConfig, count: u64, bytes: u32, gap: Duration) -> (Vec<(u64, Time)>, Counters) {
    let mut line = Line::new(config);
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = Time(number * nanoseconds(gap));
        drain(&mut line, now, &mut arrived);
        let _ = line.handle_packet(now, bytes, number);
    }
    drain(&mut line, Time(u64::MAX), &mut arrived);
    (arrived, line.counters())
}

fn drain(line: &mut Line<u64>, until: Time, arrived: &mut Vec<(u64, Time)>) {
    while let Some(at) = line.poll_timeout().filter(|at| *at <= until) {
        assert!(at.0 == 0 || line.poll_packet(Time(at.0 - 1)).is_none());
        let packet = line.poll_packet(at).expect("the line named this time");
        arrived.push((packet, at));
    }
}

#[test]
fn a_lone_packet_takes_its_transmission_and_the_delay() {
    let (arrived, _) = run(config(), 1, MTU, Duration::ZERO);
    assert_eq!(arrived, [(0, Time(25_000_000 + 12_000))]);
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let free = LineConfig {
        rate: None,
        ..config()
    };
    let (arrived, counters) = run(free, 1000, MTU, Duration::from_nanos(10));
    assert_eq!(counters.delivered, 1000);
    for (number, at) in arrived {
        assert_eq!(at, Time(number * 10 + 25_000_000));
    }
}

#[test]
fn a_steady_overload_leaves_at_exactly_the_rate() {
    // A rate that divides nothing evenly: rounding must not add up.
    let odd = LineConfig {
        rate: Rate::from_bits_per_second(999_999_937),
        ..config()
    };
    let (arrived, counters) = run(odd, 100_000, MTU, Duration::from_micros(6));
    let sent: u64 = counters.delivered * u64::from(MTU);
    let last = arrived.last().expect("something arrived").1.0 - 25_000_000;
    let exact = u128::from(sent) * BIT_NANOSECONDS_PER_BYTE / 999_999_937;
    assert_eq!(
        u128::from(last),
        exact,
        "the bottleneck was busy all the time"
    );
    assert!(
        counters.queue_full > 40_000,
        "half of it is too much: {counters:?}"
    );
}

#[test]
fn the_queue_drops_the_newest_and_never_exceeds_its_limit() {
    let burst = LineConfig {
        queue_bytes: 20 * u64::from(MTU),
        ..config()
    };
    let (arrived, counters) = run(burst, 100, MTU, Duration::ZERO);
    let passed: Vec<u64> = arrived.iter().map(|(number, _)| *number).collect();
    assert_eq!(passed, (0..20).collect::<Vec<u64>>());
    assert_eq!(counters.queue_full, 80);
    assert_eq!(counters.queue_bytes_max, burst.queue_bytes);
}

#[test]
fn the_queue_takes_more_as_it_drains() {
    let mut line = Line::new(LineConfig {
        queue_bytes: u64::from(2 * MTU),
        ..config()
    });
    line.handle_packet(Time(0), MTU, 0).expect("idle");
    line.handle_packet(Time(0), MTU, 1).expect("room for two");
    assert_eq!(
        line.handle_packet(Time(11_999), MTU, 2),
        Err((Refusal::QueueFull, 2))
    );
    line.handle_packet(Time(12_000), MTU, 3)
        .expect("the first one is out");
}

#[test]
fn a_packet_larger_than_the_queue_passes_when_the_line_is_idle() {
    let tiny = LineConfig {
        queue_bytes: 100,
        ..config()
    };
    let (arrived, counters) = run(tiny, 10, 65_000, Duration::from_millis(1));
    assert_eq!((arrived.len(), counters.queue_full), (10, 0));
}

#[test]
fn losses_follow_the_seed_and_the_probability() {
    let lossy = LineConfig {
        loss: Loss::from_parts_per_billion(10_000_000).expect("one per cent"),
        ..config()
    };
    let gap = Duration::from_micros(20);
    let (first, counters) = run(lossy, 100_000, MTU, gap);
    // Five standard deviations of a binomial with n = 100,000 and p = 0.01.
    assert!(
        counters.lost.abs_diff(1000) < 158,
        "seed {}: {counters:?}",
        lossy.seed
    );
    assert_eq!(first, run(lossy, 100_000, MTU, gap).0);
    let (other, _) = run(LineConfig { seed: 8, ..lossy }, 100_000, MTU, gap);
    assert_ne!(first, other);
}

#[test]
fn losses_do_not_depend_on_timing() {
    let lossy = LineConfig {
        loss: Loss::from_parts_per_billion(300_000_000).expect("30 per cent"),
        queue_bytes: u64::MAX,
        ..config()
    };
    let names = |gap| -> Vec<u64> {
        run(lossy, 5000, 100, gap)
            .0
            .iter()
            .map(|(n, _)| *n)
            .collect()
    };
    assert_eq!(
        names(Duration::from_nanos(50)),
        names(Duration::from_millis(3))
    );
}

#[test]
fn certain_loss_loses_all_and_none_loses_none() {
    let all = LineConfig {
        loss: Loss::from_parts_per_billion(LOSS_CERTAIN).expect("certain"),
        ..config()
    };
    let gap = Duration::from_micros(20);
    assert_eq!(run(all, 1000, MTU, gap).1.lost, 1000);
    assert_eq!(run(config(), 1000, MTU, gap).1.lost, 0);
    assert_eq!(Loss::from_parts_per_billion(LOSS_CERTAIN + 1), None);
}

#[test]
fn a_line_without_a_rate_holds_a_bounded_amount() {
    let endless = LineConfig {
        rate: None,
        delay: Duration::from_secs(10),
        ..config()
    };
    let count = 2 * endless.held_bytes_max() / 65_536;
    let (_, counters) = run(endless, count, 65_536, Duration::from_nanos(1));
    assert_eq!(
        counters.delivered_bytes + counters.overflow * 65_536,
        count * 65_536
    );
    assert_eq!(counters.delivered_bytes, endless.held_bytes_max());
}

#[test]
fn every_packet_is_accounted_for() {
    for seed in 0..50 {
        let hard = LineConfig {
            loss: Loss::from_parts_per_billion(100_000_000).expect("ten per cent"),
            queue_bytes: 10_000 + seed * 1000,
            seed,
            ..config()
        };
        let (arrived, counters) = run(hard, 5000, MTU, Duration::from_micros(9 + seed % 5));
        let refused = counters.lost + counters.queue_full + counters.overflow;
        assert_eq!(counters.delivered + refused, 5000, "seed {seed}");
        assert_eq!(arrived.len() as u64, counters.delivered, "seed {seed}");
        assert!(
            arrived
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1),
            "order kept, seed {seed}"
        );
        assert_eq!(
            counters.overflow, 0,
            "a rate bounds what is under way, seed {seed}"
        );
    }
}
