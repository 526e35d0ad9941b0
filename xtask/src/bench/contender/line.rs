//! Owns a long line for one case: `wanlink` between two namespaces made for it, and how commands get into them.
//! What the line does to packets is decided by `wanlink`.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;

use super::super::case::LineSpec;
use super::super::process::{Process, Side};
use super::{Programs, command, require};

/// Addresses of the two ends, inside their namespaces only.
const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";

/// Numbers the lines of this process, because two can be up at once.
static LINES: AtomicU32 = AtomicU32::new(0);

/// A line that is up as long as this lives.
pub(super) struct Line {
    near: String,
    far: String,
    _wanlink: Process,
}

impl Line {
    /// Makes two namespaces and a line of `spec` between them.
    ///
    /// # Errors
    /// When the user may not, or `wanlink` is not built.
    pub(super) fn start(programs: &Programs, spec: LineSpec) -> anyhow::Result<Self> {
        require("ip")?;
        let number = LINES.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("gwb-{}-{number}-{end}", std::process::id());
        let (near, far) = (name("near"), name("far"));
        let mut wanlink = command(&programs.wanlink);
        wanlink.args(["--make", "--ignore-stdin", "--offload", "on"]);
        wanlink.arg("--left").arg(format!("{near}:{NEAR}/30"));
        wanlink.arg("--right").arg(format!("{far}:{FAR}/30"));
        wanlink.arg("--rtt").arg(format!("{}ms", spec.rtt_ms));
        if let Some(rate) = spec.rate {
            wanlink.args(["--rate", rate]);
        }
        // Of neither side: its processor time is the line's.
        let wanlink = Process::start("wanlink", Side::Source, wanlink, true)?;
        wanlink
            .line_after("ready")
            .context("a line needs root and /dev/net/tun")?;
        Ok(Self {
            near,
            far,
            _wanlink: wanlink,
        })
    }

    /// Where a daemon at the far end listens.
    pub(super) fn far_address(&self) -> &'static str {
        FAR
    }

    /// The same command at the near end.
    pub(super) fn at_near(&self, inner: &Command) -> Command {
        inside(&self.near, inner)
    }

    /// The same command at the far end.
    pub(super) fn at_far(&self, inner: &Command) -> Command {
        inside(&self.far, inner)
    }
}

/// `ip netns exec` becomes the program that it starts, so the process measured stays the right one.
fn inside(namespace: &str, inner: &Command) -> Command {
    let mut outer = command("ip");
    outer
        .args(["netns", "exec", namespace])
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}
