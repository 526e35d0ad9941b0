//! Owns a network for the nodes of two sites: a namespace for each node, two links with a rate for each, their interruptions and
//! counters. Starts no programs in it.
//!
//! ```text
//! node ── eth0 ── switch ── trunk ── switch ── eth0 ── node
//!      └─ eth1 ── switch ── trunk ── switch ── eth1 ─┘
//! ```

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::bench::process::run;

/// Number of links of each host, each to a different switch.
pub(crate) const LINKS: usize = 2;
/// Largest number of hosts: the last number of their addresses.
const HOSTS_MAX: usize = 200;
/// Number of kbit/s in one Mbit/s.
pub(crate) const KBIT: u32 = 1_000;
/// Longest time that a packet waits because of the rate limit.
const QUEUE_LATENCY: &str = "30ms";
/// Numbers the networks of this process.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// A namespace for the switches and one for each host; dropping this value removes all of them.
pub(crate) struct Network {
    prefix: String,
    /// Number of hosts of the first site, which have the lower numbers.
    near: usize,
    hosts: usize,
}

/// The two sites, as parts of the names of devices.
const SITES: [&str; 2] = ["near", "far"];

/// Bytes that one link has carried, with Ethernet headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Network {
    /// Makes the hosts of two sites. Each link of a host has the rate of that host in each direction, in Mbit/s; the rates of the first
    /// site precede those of the second. The traffic between the sites has no additional limit.
    ///
    /// # Errors
    /// The user is not root, or `ip` or `tc` is missing.
    pub(crate) fn make(near: usize, far: usize, rates_mbit: &[u32]) -> anyhow::Result<Self> {
        let hosts = near + far;
        ensure!(hosts <= HOSTS_MAX, "at most {HOSTS_MAX} hosts");
        ensure!(rates_mbit.len() == hosts, "each node needs a rate");
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("gwc-{}-{number}", std::process::id());
        let network = Self {
            prefix,
            near,
            hosts,
        };
        let hub = network.hub();
        ip(&["netns", "add", &hub]).context("namespaces need root")?;
        for link in 0..LINKS {
            let [near, far] = SITES.map(|site| trunk(site, link));
            let pair = ["type", "veth", "peer", "name", &far];
            ip(&[&["-n", &hub, "link", "add", &near][..], &pair].concat())?;
            for site in SITES {
                let (switch, trunk) = (switch(site, link), trunk(site, link));
                ip(&["-n", &hub, "link", "add", &switch, "type", "bridge"])?;
                ip(&["-n", &hub, "link", "set", &switch, "up"])?;
                ip(&["-n", &hub, "link", "set", &trunk, "master", &switch, "up"])?;
            }
        }
        for (host, rate_mbit) in rates_mbit.iter().enumerate() {
            network.add(host, *rate_mbit)?;
        }
        Ok(network)
    }

    fn add(&self, host: usize, rate_mbit: u32) -> anyhow::Result<()> {
        let (hub, name) = (self.hub(), self.namespace(host));
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        // IPv6 would be an unnecessary second network, whose addresses are usable only after seconds.
        let mut quiet = self.inside(host, "sysctl");
        run(quiet.args(["-qw", "net.ipv6.conf.default.disable_ipv6=1"]))?;
        for link in 0..LINKS {
            let site = SITES[usize::from(host >= self.near)];
            let (port, end, switch) = (port(host, link), format!("eth{link}"), switch(site, link));
            let pair = ["type", "veth", "peer", "name", &end, "netns", &name];
            ip(&[&["link", "add", &port, "netns", &hub][..], &pair].concat())?;
            ip(&["-n", &hub, "link", "set", &port, "master", &switch, "up"])?;
            let address = format!("{}/24", self.address(host, link));
            ip(&["-n", &name, "address", "add", &address, "dev", &end])?;
            ip(&["-n", &name, "link", "set", &end, "up"])?;
            let kbit = rate_mbit.saturating_mul(KBIT);
            limit(&name, &end, kbit)?;
            limit(&hub, &port, kbit)?;
        }
        Ok(())
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// The address of a host at one of its links.
    pub(crate) fn address(&self, host: usize, link: usize) -> String {
        format!("10.79.{link}.{}", host + 10)
    }

    /// A command that runs at a host, with an empty standard input. The process id of the command is that of the program.
    pub(crate) fn inside(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let namespace = format!("--net=/run/netns/{}", self.namespace(host));
        command.args([&namespace, "--", program]);
        command.stdin(Stdio::null());
        command
    }

    /// Cuts a link, or restores it. A cut link passes no packets, and neither end gets a signal.
    ///
    /// # Errors
    /// There is no such link.
    pub(crate) fn set_link(&self, host: usize, link: usize, is_whole: bool) -> anyhow::Result<()> {
        // The states of a switch port: disabled, and forwarding.
        let state = if is_whole { "3" } else { "0" };
        let (hub, port) = (self.hub(), port(host, link));
        let words = ["link", "set", "dev", &port, "type", "bridge_slave"];
        ip(&[&["-n", &hub][..], &words, &["state", state]].concat())
    }

    /// Sets the rate of a link in both directions, in kbit/s.
    ///
    /// # Errors
    /// There is no such link.
    pub(crate) fn set_rate(&self, host: usize, link: usize, kbit: u32) -> anyhow::Result<()> {
        limit(&self.namespace(host), &format!("eth{link}"), kbit)?;
        limit(&self.hub(), &port(host, link), kbit)
    }

    /// The bytes that the links of each host have carried, as the host counts them.
    ///
    /// # Errors
    /// The kernel provides no counters.
    pub(crate) fn carried(&self) -> anyhow::Result<Vec<[Carried; LINKS]>> {
        let devices = self.devices()?;
        let links = |host| -> anyhow::Result<[Carried; LINKS]> {
            let mut links = [Carried::default(); LINKS];
            for (link, carried) in links.iter_mut().enumerate() {
                *carried = counters(&devices, &port(host, link))?;
            }
            Ok(links)
        };
        (0..self.hosts).map(links).collect()
    }

    /// The bytes that have passed between the sites: sent by the first site, and received by it.
    ///
    /// # Errors
    /// The kernel provides no counters.
    pub(crate) fn between(&self) -> anyhow::Result<Carried> {
        let devices = self.devices()?;
        let mut sum = Carried::default();
        for link in 0..LINKS {
            // The first site's end of the trunk counts the bytes that arrive from the other site.
            let carried = counters(&devices, &trunk(SITES[0], link))?;
            sum.sent += carried.received;
            sum.received += carried.sent;
        }
        Ok(sum)
    }

    fn devices(&self) -> anyhow::Result<Vec<Value>> {
        let mut show = Command::new("ip");
        let output = show
            .args(["-n", &self.hub(), "-s", "-j", "link", "show"])
            .output()
            .context("cannot run ip")?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let hosts = (0..self.hosts).map(|host| self.namespace(host));
        for name in hosts.chain([self.hub()]) {
            // A namespace that was not made cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

fn switch(site: &str, link: usize) -> String {
    format!("{site}{link}")
}

fn trunk(site: &str, link: usize) -> String {
    format!("{site}-trunk{link}")
}

/// Counters of a switch port, from the view of the host at the port.
fn counters(devices: &[Value], name: &str) -> anyhow::Result<Carried> {
    let device = devices.iter().find(|device| device["ifname"] == *name);
    let device = device.with_context(|| format!("no device {name}"))?;
    let bytes = |way: &str| {
        let bytes = device["stats64"][way]["bytes"].as_u64();
        bytes.context("a device without counters")
    };
    Ok(Carried {
        sent: bytes("rx")?,
        received: bytes("tx")?,
    })
}

fn port(host: usize, link: usize) -> String {
    format!("h{host}n{link}")
}

/// Limits the rate of the traffic that the device sends.
fn limit(namespace: &str, device: &str, kbit: u32) -> anyhow::Result<()> {
    let rate = format!("{kbit}kbit");
    // Ten milliseconds of the rate, but at least two of the largest packets of a virtual device.
    let burst = (u64::from(kbit) * 1_000 / 8 / 100).max(2 * 65_536);
    let burst = burst.to_string();
    let words = [
        "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate,
    ];
    let mut tc = Command::new("tc");
    tc.args(["-n", namespace]).args(words);
    run(tc.args(["burst", &burst, "latency", QUEUE_LATENCY]))
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(words))
}
