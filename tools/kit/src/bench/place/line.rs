//! Owns a long link for one case: `wanlink` between two namespaces made for it.
//! `wanlink` decides how the link treats packets.

use anyhow::Context as _;

use super::super::case::LineSpec;
use super::super::contender::{Programs, command};
use super::super::process::{Process, Side};
use super::Ends;

/// Addresses of the two ends; they exist only inside their namespaces.
pub(super) const NEAR: &str = "10.77.0.1";
pub(super) const FAR: &str = "10.77.0.2";

/// A link that exists as long as this value.
pub(crate) struct Line {
    ends: Ends,
    wanlink: Process,
}

impl Line {
    /// Makes two namespaces and a link of `spec` between them.
    ///
    /// # Errors
    /// The user may not make namespaces, or `wanlink` is not built.
    pub(super) fn start(programs: &Programs, spec: &LineSpec) -> anyhow::Result<Self> {
        let ends = Ends::name()?;
        let mut wanlink = command(&programs.wanlink);
        let offload = if spec.offload { "on" } else { "off" };
        wanlink.args(["--make", "--ignore-stdin", "--offload", offload]);
        wanlink.args(["--seed", &spec.seed.to_string()]);
        wanlink
            .arg("--left")
            .arg(format!("{}:{NEAR}/30", ends.near));
        wanlink.arg("--right").arg(format!("{}:{FAR}/30", ends.far));
        wanlink.arg("--rtt").arg(format!("{}ms", spec.rtt_ms));
        if let Some(rate) = spec.rate {
            wanlink.args(["--rate", rate]);
        }
        if let Some(loss) = spec.loss {
            wanlink.args(["--loss", loss]);
        }
        // `wanlink` belongs to neither side: its processor time is the link's.
        let wanlink = Process::start("wanlink", Side::Source, wanlink, true)?;
        wanlink
            .line_after("ready")
            .context("a line needs root and /dev/net/tun")?;
        ends.set_names([NEAR].into_iter(), [FAR].into_iter())?;
        Ok(Self { ends, wanlink })
    }

    /// Processor time of the emulator so far.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.wanlink.usage().cpu_seconds
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }
}
