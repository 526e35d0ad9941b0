//! Whether this machine's interfaces can be used as separate network paths: binding to them, and the kernel's settings for that.
//! Reads `/proc/sys` and changes nothing in it.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use godwit_net::{InterfaceAddress, may_bind_to_interface, own_interfaces};

use super::findings::Findings;

/// Looks at the interfaces. With one interface there is one path, and no finding.
pub(super) fn look(findings: &mut Findings) {
    let own = own_interfaces().unwrap_or_default();
    let may_bind = own.first().is_none_or(|own| {
        UdpSocket::bind((own.address, 0))
            .is_ok_and(|socket| may_bind_to_interface(&socket, &own.interface))
    });
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}")).ok()?;
        text.trim().parse().ok()
    };
    judge(&own, may_bind, &read, findings);
}

fn judge(
    own: &[InterfaceAddress],
    may_bind: bool,
    read: &dyn Fn(&str) -> Option<u32>,
    findings: &mut Findings,
) {
    let mut names: Vec<&str> = own.iter().map(|own| own.interface.as_str()).collect();
    names.dedup();
    if names.len() < 2 {
        return;
    }
    // The kernel takes the larger of the global value and the interface's value.
    let value = |interface: &str, setting: &str| {
        let of = |name: &str| read(&format!("{name}/{setting}")).unwrap_or(0);
        of("all").max(of(interface))
    };
    if may_bind {
        findings.fine(
            "interfaces",
            format!(
                "{}; a transfer can use each of them as a separate path",
                names.join(", ")
            ),
        );
    } else {
        findings.note(
            "interfaces",
            format!(
                "{}; this kernel lets only root bind a connection to an interface, so the routing chooses the interface",
                names.join(", ")
            ),
            Some("Linux 5.7 or newer, or for each address: ip route add default via GATEWAY dev INTERFACE table N; ip rule add from ADDRESS table N".to_owned()),
        );
    }
    let mut networks: BTreeMap<(u32, u8), Vec<&str>> = BTreeMap::new();
    for own in own {
        if let std::net::IpAddr::V4(address) = own.address {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(own.prefix_bits))
                .unwrap_or(0);
            let network = networks
                .entry((u32::from(address) & mask, own.prefix_bits))
                .or_default();
            if !network.contains(&own.interface.as_str()) {
                network.push(&own.interface);
            }
        }
    }
    for shared in networks.values().filter(|shared| shared.len() > 1) {
        if shared.iter().any(|name| value(name, "arp_ignore") == 0) {
            findings.note(
                "interfaces",
                format!(
                    "{} are in one network, and each answers ARP for the addresses of all: paths over these interfaces may not work",
                    shared.join(" and ")
                ),
                Some("as root, on both sides: sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2".to_owned()),
            );
        }
    }
    let strict: Vec<&str> = names
        .into_iter()
        .filter(|name| value(name, "rp_filter") == 1)
        .collect();
    if !strict.is_empty() {
        findings.note(
            "interfaces",
            format!(
                "{}: the kernel drops packets that arrive on an interface other than the route back uses (rp_filter=1); this may cut off paths to distant machines",
                strict.join(", ")
            ),
            Some("as root: sysctl -w net.ipv4.conf.all.rp_filter=2, or source routing".to_owned()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        own: &[(&str, u32, &str)],
        may_bind: bool,
        settings: &[(&str, u32)],
    ) -> Vec<(String, Option<String>)> {
        let own: Vec<InterfaceAddress> = own
            .iter()
            .map(|(interface, index, address)| InterfaceAddress {
                interface: (*interface).to_owned(),
                index: *index,
                address: address.parse().unwrap(),
                prefix_bits: 24,
            })
            .collect();
        let read = |name: &str| {
            let found = settings.iter().find(|(setting, _)| *setting == name);
            found.map(|(_, value)| *value)
        };
        let mut findings = Findings::default();
        judge(&own, may_bind, &read, &mut findings);
        findings
            .all
            .into_iter()
            .map(|finding| (finding.message, finding.mend))
            .collect()
    }

    const APART: [(&str, u32, &str); 2] = [("eth0", 2, "10.0.0.1"), ("eth1", 3, "10.0.1.1")];
    const TOGETHER: [(&str, u32, &str); 2] = [("eth0", 2, "10.0.0.1"), ("eth1", 3, "10.0.0.2")];

    #[test]
    fn one_interface_is_nothing_to_speak_of() {
        assert!(found(&APART[..1], true, &[]).is_empty());
    }

    #[test]
    fn separate_networks_are_fine() {
        let found = found(&APART, true, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].0.starts_with("eth0, eth1;") && found[0].1.is_none());
    }

    #[test]
    fn each_obstacle_of_an_interface_comes_with_advice() {
        let unbound = found(&APART, false, &[]);
        assert!(unbound[0].1.as_ref().unwrap().contains("ip rule add from"));
        let shared = found(&TOGETHER, true, &[]);
        assert!(shared[1].1.as_ref().unwrap().contains("arp_ignore=1"));
        assert_eq!(found(&TOGETHER, true, &[("all/arp_ignore", 1)]).len(), 1);
        let strict = found(&APART, true, &[("eth1/rp_filter", 1)]);
        assert!(strict[1].0.starts_with("eth1:"));
        let loose = [("eth1/rp_filter", 1), ("all/rp_filter", 2)];
        assert_eq!(found(&APART, true, &loose).len(), 1);
    }
}
