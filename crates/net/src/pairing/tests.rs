//! Tests of pairing: examples, and properties for any interfaces. Opens no socket.

use proptest::prelude::*;

use super::*;

fn own(index: u32, address: &str, prefix_bits: u8) -> InterfaceAddress {
    InterfaceAddress {
        interface: format!("eth{index}"),
        index,
        address: address.parse().unwrap(),
        prefix_bits,
    }
}

fn their(interface: u32, address: &str, prefix_bits: u8) -> TheirAddress {
    TheirAddress {
        address: SocketAddr::new(address.parse().unwrap(), 7272),
        prefix_bits,
        interface,
        dialled: false,
    }
}

fn shown(pairs: &[Pair]) -> Vec<String> {
    let way = |way: &Channel| way.to_string();
    pairs
        .iter()
        .map(|pair| pair.ways.iter().map(way).collect::<Vec<_>>().join(" | "))
        .collect()
}

#[test]
fn interfaces_of_one_network_go_together_in_whatever_order_they_are() {
    let pairing = Pairing::new(
        &[
            own(2, "10.0.1.1", 24),
            own(3, "10.0.2.1", 24),
            own(4, "10.0.3.1", 24),
        ],
        &[their(7, "10.0.3.2", 24), their(8, "10.0.1.2", 24)],
    );
    assert_eq!(
        shown(&pairing.near()),
        ["eth2 (10.0.1.1) to 10.0.1.2", "eth4 (10.0.3.1) to 10.0.3.2"]
    );
}

#[test]
fn two_addresses_of_one_pair_are_two_ways_of_one_channel() {
    let pairing = Pairing::new(
        &[own(2, "fd00:1::1", 64), own(2, "10.0.1.1", 24)],
        &[their(7, "10.0.1.2", 24), their(7, "fd00:1::2", 64)],
    );
    assert_eq!(
        shown(&pairing.near()),
        ["eth2 (10.0.1.1) to 10.0.1.2 | eth2 (fd00:1::1) to fd00:1::2"]
    );
}

#[test]
fn addresses_of_a_named_channel_are_not_paired_twice() {
    let mut pairing = Pairing::new(
        &[own(2, "10.0.1.1", 24), own(3, "10.0.2.1", 24)],
        &[their(7, "10.0.1.2", 24), their(8, "10.0.2.2", 24)],
    );
    pairing.take_addresses("10.0.1.1".parse().unwrap(), "10.0.1.2".parse().unwrap());
    assert_eq!(shown(&pairing.near()), ["eth3 (10.0.2.1) to 10.0.2.2"]);
    let said = TheirAddress {
        dialled: true,
        ..their(7, "10.0.1.2", 24)
    };
    assert_eq!(Pairing::new(&[own(2, "10.0.1.1", 24)], &[said]).room(), 0);
    let one_here = Pairing::new(&[own(2, "10.0.1.1", 24)], &[]);
    assert_eq!(one_here.room(), 0);
}

#[test]
fn a_bridge_that_has_the_same_address_at_both_sides_is_no_way_to_the_other() {
    let pairing = Pairing::new(
        &[own(2, "10.0.1.1", 24), own(5, "172.17.0.1", 16)],
        &[their(9, "172.17.0.1", 16)],
    );
    assert!(pairing.near().is_empty());
    assert_eq!(pairing.room(), 0);
}

#[test]
fn distant_interfaces_are_tried_in_order_and_then_crosswise() {
    let pairing = Pairing::new(
        &[own(2, "10.1.0.1", 24), own(3, "10.2.0.1", 24)],
        &[their(7, "10.8.0.1", 24), their(8, "10.9.0.1", 24)],
    );
    assert!(pairing.near().is_empty());
    assert_eq!(
        shown(&pairing.far(0)),
        ["eth2 (10.1.0.1) to 10.8.0.1", "eth3 (10.2.0.1) to 10.9.0.1"]
    );
    assert_eq!(
        shown(&pairing.far(1)),
        ["eth2 (10.1.0.1) to 10.9.0.1", "eth3 (10.2.0.1) to 10.8.0.1"]
    );
}

fn network() -> impl Strategy<Value = (IpAddr, u8)> {
    // Few networks and few hosts, so that interfaces often share a network.
    prop_oneof![
        (0..4_u8, 1..5_u8).prop_map(|(net, host)| ([10, 0, net, host].into(), 24)),
        (0..4_u16, 1..5_u16)
            .prop_map(|(net, host)| ([0xfd00, net, 0, 0, 0, 0, 0, host].into(), 64)),
    ]
}

fn sides() -> impl Strategy<Value = (Vec<InterfaceAddress>, Vec<TheirAddress>)> {
    let ours = prop::collection::vec((1..6_u32, network()), 0..12);
    let theirs = prop::collection::vec((1..6_u32, network()), 0..12);
    (ours, theirs).prop_map(|(ours, theirs)| {
        let ours = ours
            .into_iter()
            .map(|(index, (ip, bits))| own(index, &ip.to_string(), bits))
            .collect();
        let theirs = theirs
            .into_iter()
            .map(|(index, (ip, bits))| their(index, &ip.to_string(), bits))
            .collect();
        (ours, theirs)
    })
}

fn check(pairs: &[Pair], pairing: &Pairing, ours: &[InterfaceAddress], theirs: &[TheirAddress]) {
    let mut own: Vec<u32> = pairs.iter().map(|pair| pair.own).collect();
    let mut their: Vec<u32> = pairs.iter().map(|pair| pair.their).collect();
    for side in [&mut own, &mut their] {
        let count = side.len();
        side.sort_unstable();
        side.dedup();
        assert_eq!(side.len(), count, "an interface is used twice: {pairs:?}");
    }
    assert!(pairs.len() <= pairing.room());
    for pair in pairs {
        assert!((1..=2).contains(&pair.ways.len()));
        for way in &pair.ways {
            let local = way.local.as_ref().unwrap().address;
            let remote = way.remote.ip();
            assert_eq!(local.is_ipv4(), remote.is_ipv4());
            assert!(
                ours.iter()
                    .any(|own| own.index == pair.own && own.address == local)
            );
            assert!(
                theirs
                    .iter()
                    .any(|their| their.interface == pair.their && their.address.ip() == remote)
            );
            assert!(
                ours.iter().all(|own| own.address != remote),
                "it leads to ourselves"
            );
        }
    }
}

proptest! {
    #[test]
    fn each_interface_is_paired_once_and_by_its_own_addresses((ours, theirs) in sides()) {
        let pairing = Pairing::new(&ours, &theirs);
        let near = pairing.near();
        check(&near, &pairing, &ours, &theirs);
        for way in near.iter().flat_map(|pair| &pair.ways) {
            let local = way.local.as_ref().unwrap().address;
            let bits = if local.is_ipv4() { 24 } else { 64 };
            prop_assert!(shares_prefix(local, way.remote.ip(), bits));
        }
        for round in 0..pairing.rounds() {
            check(&pairing.far(round), &pairing, &ours, &theirs);
        }
    }

    /// No possible pair is left out: all rounds together try each of our interfaces with each of theirs.
    #[test]
    fn the_rounds_try_every_pair((ours, theirs) in sides()) {
        let pairing = Pairing::new(&ours, &theirs);
        let mut tried: Vec<(u32, u32)> = (0..pairing.rounds())
            .flat_map(|round| pairing.far(round))
            .map(|pair| (pair.own, pair.their))
            .collect();
        let count = tried.len();
        tried.sort_unstable();
        tried.dedup();
        prop_assert_eq!(tried.len(), count);
        for (own, addresses) in &pairing.own {
            for (their, announced) in &pairing.their {
                let possible = !ways(addresses, announced, |_, _| true).is_empty();
                prop_assert_eq!(tried.contains(&(*own, *their)), possible);
            }
        }
    }

    #[test]
    fn a_pair_that_works_is_not_tried_again((ours, theirs) in sides()) {
        let mut pairing = Pairing::new(&ours, &theirs);
        let near = pairing.near();
        for pair in &near {
            pairing.take(pair);
        }
        let rounds = pairing.rounds();
        for pair in (0..rounds).flat_map(|round| pairing.far(round)) {
            prop_assert!(near.iter().all(|taken| taken.own != pair.own && taken.their != pair.their));
        }
    }
}
