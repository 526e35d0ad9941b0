//! Owns two namespaces joined by pairs of virtual Ethernet devices, each of which is a cable with a rate. Adds no delay:
//! `wanlink` does.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::super::contender::command;
use super::super::process::{Side, run};
use super::Ends;

/// Largest number of cables: they number the third part of the addresses.
pub(crate) const CABLES_MAX: u8 = 16;
/// Time within which the addresses of new devices must be usable, and the interval between checks.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
const SETTLE_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Latency of the queue behind a rate limit, in addition to its burst: that of one device.
const QUEUE_LATENCY: &str = "10ms";

/// Description of the cables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CableSpec {
    /// Number of cables, 1 to [`CABLES_MAX`].
    pub(crate) count: u8,
    /// Rate in the form of `tc`, or several rates with commas, the last for all later cables; `None` means the highest rate
    /// of the machine.
    pub(crate) rate: Option<String>,
    /// Largest packet in bytes.
    pub(crate) mtu: u16,
}

impl CableSpec {
    fn rate_of(&self, number: u8) -> Option<&str> {
        let rates = self.rate.as_deref()?;
        let of_it = rates.split(',').nth(usize::from(number));
        of_it.or_else(|| rates.rsplit(',').next())
    }

    pub(super) fn describe(&self) -> String {
        let rate = self.rate.as_deref().unwrap_or("no limit");
        format!(
            "two network namespaces, {} veth pair(s), MTU {}, {rate}",
            self.count, self.mtu
        )
    }
}

/// Namespaces and cables that exist as long as this value.
pub(crate) struct Cables {
    ends: Ends,
    near: Vec<String>,
    far: Vec<String>,
}

impl Cables {
    /// Makes two namespaces and joins them.
    ///
    /// # Errors
    /// The user lacks the right to make namespaces, or the kernel has no `veth` devices.
    pub(super) fn join(spec: &CableSpec) -> anyhow::Result<Self> {
        let mut cables = Self {
            ends: Ends::name()?,
            near: Vec::new(),
            far: Vec::new(),
        };
        for end in [&cables.ends.near, &cables.ends.far] {
            run(command("ip").args(["netns", "add", end])).context("namespaces need root")?;
            run(command("ip").args(["-n", end, "link", "set", "lo", "up"]))?;
        }
        for number in 0..spec.count {
            cables.lay(number, spec)?;
        }
        for end in [&cables.ends.near, &cables.ends.far] {
            settle(end)?;
        }
        let [near, far] = [&cables.near, &cables.far];
        cables.ends.set_names(
            near.iter().map(String::as_str),
            far.iter().map(String::as_str),
        )?;
        Ok(cables)
    }

    fn lay(&mut self, number: u8, spec: &CableSpec) -> anyhow::Result<()> {
        let device = format!("cable{number}");
        let (near, far) = (&self.ends.near, &self.ends.far);
        run(command("ip").args([
            "link", "add", &device, "netns", near, "type", "veth", "peer", "name", &device,
            "netns", far,
        ]))?;
        let mtu = spec.mtu.to_string();
        for (end, host, known) in [(near, 1, &mut self.near), (far, 2, &mut self.far)] {
            let address = format!("10.78.{number}.{host}");
            let with_mask = format!("{address}/24");
            run(command("ip").args(["-n", end, "address", "add", &with_mask, "dev", &device]))?;
            run(command("ip").args(["-n", end, "link", "set", &device, "mtu", &mtu, "up"]))?;
            if let Some(rate) = spec.rate_of(number) {
                // A burst of a millisecond at 8 Gbit/s: a smaller burst limits below the rate, a larger one makes the rate
                // meaningless.
                run(command("tc").args([
                    "-n",
                    end,
                    "qdisc",
                    "add",
                    "dev",
                    &device,
                    "root",
                    "tbf",
                    "rate",
                    rate,
                    "burst",
                    "1mb",
                    "latency",
                    QUEUE_LATENCY,
                ]))?;
            }
            known.push(address);
        }
        Ok(())
    }

    pub(super) fn set_carrier(&self, number: u8, is_up: bool) -> anyhow::Result<()> {
        let state = if is_up { "up" } else { "down" };
        let device = format!("cable{number}");
        run(command("ip").args(["-n", &self.ends.far, "link", "set", &device, state]))
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) fn addresses(&self, side: Side) -> &[String] {
        match side {
            Side::Source => &self.near,
            Side::Destination => &self.far,
        }
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        for end in [&self.ends.near, &self.ends.far] {
            // A namespace that was not made cannot be removed.
            let _ = command("ip").args(["netns", "del", end]).output();
        }
    }
}

/// Waits until all addresses of a namespace are usable: the kernel first tests IPv6 addresses for a second or two.
fn settle(namespace: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + SETTLE_LIMIT;
    loop {
        let mut tentative = command("ip");
        tentative.args(["-n", namespace, "-6", "address", "show", "tentative"]);
        let output = tentative.output().context("cannot run ip")?;
        if output.stdout.is_empty() || Instant::now() > deadline {
            return Ok(());
        }
        std::thread::sleep(SETTLE_LOOK_EVERY);
    }
}
