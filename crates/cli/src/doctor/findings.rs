//! The findings: states, their meaning for a transfer, and the rates that bound it.
//! Prints nothing.

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// A transfer would fail.
    Stop,
}

impl Level {
    /// In the output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Stop => "stop",
        }
    }
}

/// One thing that was looked at.
pub(super) struct Finding {
    /// A word for it.
    pub(super) name: &'static str,
    /// How bad it is.
    pub(super) level: Level,
    /// The finding, in words.
    pub(super) message: String,
    /// The remedy, if there is one.
    pub(super) mend: Option<String>,
}

/// Which way data would go, seen from this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    /// From here.
    Sending,
    /// To here.
    Receiving,
}

/// A bound on the rate of a transfer.
#[derive(Clone)]
pub(super) struct Limit {
    /// A word for it.
    pub(super) name: &'static str,
    /// For one direction.
    pub(super) way: Direction,
    /// The bound, in words that follow "limited by".
    pub(super) what: String,
    /// The bound.
    pub(super) bytes_per_second: u64,
    /// The remedy that raises the bound.
    pub(super) mend: String,
}

/// All that was found, in the order of looking.
#[derive(Default)]
pub(super) struct Findings {
    /// States.
    pub(super) all: Vec<Finding>,
    /// Bounds.
    pub(super) limits: Vec<Limit>,
}

impl Findings {
    /// It is as it should be.
    pub(super) fn fine(&mut self, name: &'static str, message: String) {
        self.add(name, Level::Fine, message, None);
    }

    /// It is worth knowing.
    pub(super) fn note(&mut self, name: &'static str, message: String, mend: Option<String>) {
        self.add(name, Level::Note, message, mend);
    }

    /// It would stop a transfer.
    pub(super) fn stop(&mut self, name: &'static str, message: String, mend: Option<String>) {
        self.add(name, Level::Stop, message, mend);
    }

    /// With a level that depends.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        level: Level,
        message: String,
        mend: Option<String>,
    ) {
        self.all.push(Finding {
            name,
            level,
            message,
            mend,
        });
    }

    /// Whether anything would stop a transfer.
    pub(super) fn would_stop(&self) -> bool {
        self.all.iter().any(|finding| finding.level == Level::Stop)
    }

    /// The tightest bound in one direction.
    pub(super) fn tightest(&self, way: Direction) -> Option<&Limit> {
        let of_way = self.limits.iter().filter(|limit| limit.way == way);
        of_way.min_by_key(|limit| limit.bytes_per_second)
    }
}
