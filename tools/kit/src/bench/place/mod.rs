//! Owns the place of the two ends of a transfer: loopback, or two network namespaces joined by cables or by a long link.
//! Starts no contenders.

mod ends;
mod line;
mod veth;

use std::process::Command;

use serde::Serialize;

use super::case::LineSpec;
use super::contender::{Programs, command};
use super::process::Side;

use ends::Ends;
use line::Line;
use veth::Cables;
pub(crate) use veth::{CABLES_MAX, CableSpec};

/// Kind of a place for a case without a long link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlaceSpec {
    /// Both ends in the namespace of this program.
    Loopback,
    /// A namespace for each end, and cables between them.
    Namespaces(CableSpec),
}

impl PlaceSpec {
    /// The text in the report.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Loopback => "both ends on loopback".to_owned(),
            Self::Namespaces(cables) => cables.describe(),
        }
    }
}

/// Two ends that can reach each other, as long as this value exists.
pub(crate) enum Place {
    /// 127.0.0.1 for both.
    Loopback,
    /// Namespaces with veth pairs.
    Cables(Cables),
    /// Namespaces with `wanlink`.
    Line(Line),
}

impl Place {
    /// Makes the place of a case: its link if it has one, otherwise the place in `spec`.
    ///
    /// # Errors
    /// The user may not make namespaces, or a necessary program is missing.
    pub(crate) fn make(
        spec: &PlaceSpec,
        line: Option<&LineSpec>,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        match (line, spec) {
            (Some(line), _) => Ok(Self::Line(Line::start(programs, line)?)),
            (None, PlaceSpec::Loopback) => Ok(Self::Loopback),
            (None, PlaceSpec::Namespaces(cables)) => Ok(Self::Cables(Cables::join(cables)?)),
        }
    }

    /// The address at which a server at that end listens.
    pub(crate) fn address(&self, side: Side) -> &str {
        let [near, far] = match self {
            Self::Loopback => ["127.0.0.1", "127.0.0.1"],
            Self::Cables(cables) => return cables.addresses(side).first().map_or("", |a| a),
            Self::Line(_) => [line::NEAR, line::FAR],
        };
        if side == Side::Source { near } else { far }
    }

    /// A host name for that address that both ends can resolve.
    pub(crate) fn name(&self, side: Side) -> &'static str {
        match (self, side) {
            (Self::Loopback, _) => "localhost",
            (_, Side::Source) => "near.bench",
            (_, Side::Destination) => "far.bench",
        }
    }

    /// One address for each cable, separated by commas.
    pub(crate) fn addresses(&self, side: Side) -> String {
        match self {
            Self::Cables(cables) => cables.addresses(side).join(","),
            _ => self.address(side).to_owned(),
        }
    }

    /// Processor time that the emulator of a long link has used so far; `None` without an emulator.
    pub(crate) fn line_cpu_seconds(&self) -> Option<f64> {
        match self {
            Self::Line(line) => Some(line.cpu_seconds()),
            Self::Loopback | Self::Cables(_) => None,
        }
    }

    /// Removes or restores the carrier of a cable, at the far end.
    ///
    /// # Errors
    /// There is no such cable.
    pub(crate) fn set_carrier(&self, cable: u8, is_up: bool) -> anyhow::Result<()> {
        match self {
            Self::Cables(cables) => cables.set_carrier(cable, is_up),
            Self::Loopback | Self::Line(_) => anyhow::bail!("there are no cables"),
        }
    }

    /// The same command, but run at that end.
    pub(crate) fn at(&self, side: Side, inner: Command) -> Command {
        let ends = match self {
            Self::Loopback => return inner,
            Self::Cables(cables) => cables.ends(),
            Self::Line(line) => line.ends(),
        };
        inside(
            if side == Side::Source {
                &ends.near
            } else {
                &ends.far
            },
            &inner,
        )
    }
}

/// `ip netns exec` becomes the program that it starts, so the measured process is the right one.
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
    if let Some(directory) = inner.get_current_dir() {
        outer.current_dir(directory);
    }
    outer
}
