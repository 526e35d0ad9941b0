//! Owns a transfer that is interrupted and given again, in either direction.
//! Interrupts nothing itself.

use std::fs;
use std::path::{Path, PathBuf};

use super::judge::{assert_identical, assert_tidy};
use super::process::{Outcome, Process, wait_until};
use super::rig::Rig;

pub(crate) const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    Push,
    Pull,
}

/// A transfer that is killed and given again, in either direction.
pub(crate) struct Case {
    pub(crate) rig: Rig,
    pub(crate) way: Direction,
    pub(crate) source: PathBuf,
    pub(crate) total: u64,
}

impl Case {
    pub(crate) fn new(way: Direction, make: impl FnOnce(&Path) -> u64) -> Self {
        let mut rig = Rig::new();
        let source = match way {
            Direction::Push => rig.path("run42"),
            Direction::Pull => rig.export.join("run42"),
        };
        fs::create_dir_all(&source).expect("made");
        rig.make_dirs("away/deep");
        let total = make(&source);
        rig.start(&[]);
        Self {
            rig,
            way,
            source,
            total,
        }
    }

    /// Where it goes: a name that does not exist before the first run, so that a wrong mapping would show.
    pub(crate) fn destination(&self) -> PathBuf {
        match self.way {
            Direction::Push => self.rig.export.join("new"),
            Direction::Pull => self.rig.path("new"),
        }
    }

    pub(crate) fn receiver_home(&self) -> PathBuf {
        match self.way {
            Direction::Push => self.rig.daemon_home.clone(),
            Direction::Pull => self.rig.client_home(),
        }
    }

    /// The same command in other words, by number.
    pub(crate) fn run(&self, number: u64, flags: &[&str]) -> Process {
        let from = self.rig.path(if number.is_multiple_of(2) {
            "away"
        } else {
            "away/deep"
        });
        let up = if number.is_multiple_of(2) {
            ".."
        } else {
            "../.."
        };
        let streams = (1 + number % 4).to_string();
        let (source, destination) = match self.way {
            Direction::Push => (format!("{up}/run42"), self.rig.url("new")),
            Direction::Pull => (self.rig.url("run42"), format!("{up}/new")),
        };
        let mut arguments = vec!["--streams", &streams];
        arguments.extend(flags);
        arguments.extend([source.as_str(), destination.as_str()]);
        self.rig.begin_cp(&from, &arguments)
    }

    /// Waits until the receiver has written that much, or the client has ended. Returns the written bytes.
    pub(crate) fn watch(&self, client: &mut Process, before: u64, bytes: u64) -> u64 {
        let mut written = 0;
        let reached = wait_until(|| {
            let now = match self.way {
                Direction::Push => self.rig.daemon().written(),
                Direction::Pull => client.written(),
            };
            written = now.map_or(written, |now| now.saturating_sub(before));
            (written >= bytes || client.has_ended()).then_some(())
        });
        assert!(reached.is_some(), "a standstill: {}", client.said());
        written
    }

    /// The bytes that the receiver had written before the next run.
    pub(crate) fn written_before(&self) -> u64 {
        match self.way {
            Direction::Push => self.rig.daemon().written().expect("it runs"),
            Direction::Pull => 0,
        }
    }

    pub(crate) fn vouched(&self) -> u64 {
        Rig::recovered(&self.receiver_home()).map_or(0, |recovered| recovered.vouched_bytes)
    }

    pub(crate) fn check_end(&self, end: &Outcome, vouched: u64) {
        end.complete();
        let bytes = end.number("bytes");
        assert!(
            bytes <= self.total - vouched,
            "{bytes} were delivered, {vouched} of {} were vouched for: {}",
            self.total,
            end.said()
        );
        let rate = bytes as f64 / end.summary()["seconds"].as_f64().expect("a number");
        let resent = end.number("resent_bytes");
        assert!(resent as f64 <= 256.0 * MIB as f64 + rate, "{}", end.said());
        assert_identical(&self.source, &self.destination());
        assert_tidy(&self.destination(), &self.receiver_home());
    }
}
