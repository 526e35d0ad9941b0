//! The findings: states, their meaning for a transfer, and the rates that bound it.
//! Prints nothing.

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Level {
    /// No problem.
    Fine,
    /// Worth knowing.
    Note,
    /// A transfer would fail.
    Stop,
}

impl Level {
    /// The name in the output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Stop => "stop",
        }
    }
}

/// The result of one look.
pub(super) struct Finding {
    /// The name of the look.
    pub(super) name: &'static str,
    /// The severity.
    pub(super) level: Level,
    /// The finding, in words.
    pub(super) message: String,
    /// The remedy, if there is one.
    pub(super) mend: Option<String>,
}

/// Direction of the data, seen from this machine.
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
    /// The name of the bound.
    pub(super) name: &'static str,
    /// The direction that the bound applies to.
    pub(super) way: Direction,
    /// The bound, in words that follow "limited by".
    pub(super) what: String,
    /// The bound.
    pub(super) bytes_per_second: u64,
    /// The remedy that raises the bound.
    pub(super) mend: String,
}

/// All findings, in the order of looking.
#[derive(Default)]
pub(super) struct Findings {
    /// States.
    pub(super) all: Vec<Finding>,
    /// Bounds.
    pub(super) limits: Vec<Limit>,
}

impl Findings {
    /// Adds a finding without a problem.
    pub(super) fn fine(&mut self, name: &'static str, message: String) {
        self.add(name, Level::Fine, message, None);
    }

    /// Adds a finding worth knowing.
    pub(super) fn note(&mut self, name: &'static str, message: String, mend: Option<String>) {
        self.add(name, Level::Note, message, mend);
    }

    /// Adds a finding that would stop a transfer.
    pub(super) fn stop(&mut self, name: &'static str, message: String, mend: Option<String>) {
        self.add(name, Level::Stop, message, mend);
    }

    /// Adds a finding of this level.
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

    /// The first finding that would stop a transfer.
    pub(super) fn stops(&self) -> Option<&Finding> {
        let mut all = self.all.iter();
        all.find(|finding| finding.level == Level::Stop)
    }

    /// Whether a finding would stop a transfer.
    pub(super) fn would_stop(&self) -> bool {
        self.stops().is_some()
    }

    /// The tightest bound in one direction.
    pub(super) fn tightest(&self, way: Direction) -> Option<&Limit> {
        let of_way = self.limits.iter().filter(|limit| limit.way == way);
        of_way.min_by_key(|limit| limit.bytes_per_second)
    }
}
