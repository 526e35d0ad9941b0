//! The table of all settings: name, kind, range, default, commands, places and text of each.
//! Holds no values; `resolve` finds those.

use std::time::Duration;

/// A command that has settings.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Scope {
    /// `godwit cp`
    Cp,
    /// `godwit sync`
    Sync,
    /// `godwit serve`
    Serve,
    /// `godwit gen`
    Gen,
    /// `godwit verify`
    Verify,
    /// `godwit manifest`
    Manifest,
}

impl Scope {
    /// All of them, in the order of `--help`.
    pub const ALL: [Self; 6] = [
        Self::Cp,
        Self::Sync,
        Self::Serve,
        Self::Gen,
        Self::Verify,
        Self::Manifest,
    ];

    /// The command's name, which is also its section in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cp => "cp",
            Self::Sync => "sync",
            Self::Serve => "serve",
            Self::Gen => "gen",
            Self::Verify => "verify",
            Self::Manifest => "manifest",
        }
    }
}

/// What values a setting takes; ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Bytes.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// Only powers of two.
        power_of_two: bool,
    },
    /// Bytes a second; 0 and `none` are no limit.
    Rate,
    /// A time span.
    Duration {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A plain number.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A plain number that fixes something, two of them that bound it, or `auto`.
    Bounds {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
        /// The most with `auto`.
        auto: u32,
    },
    /// A plain number, or `none`.
    CountOrNone,
    /// `true` or `false`; as a flag, its name alone means `true`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text, taken as it is.
    Text {
        /// What it looks like.
        form: &'static str,
    },
    /// The path of a file of the machine that runs the job.
    File,
    /// A TCP port, a range of them, or `any`.
    Ports,
    /// Any number of texts.
    List {
        /// What one of them looks like.
        form: &'static str,
    },
}

/// The heading under which `--help` and the man pages show a setting, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Heading {
    /// The general options, which have no heading of their own.
    General,
    /// Treatment of entries that are at the destination.
    Present,
    /// Selection of entries.
    Choosing,
    /// Owners, attributes and kinds of entries.
    Metadata,
    /// Output, logs and manifests.
    Reports,
    /// Encryption, digests and durability.
    Safety,
    /// Connections and rates.
    Network,
    /// Processors, memory and storage access.
    Machine,
}

impl Heading {
    /// The text of the heading; None for the general options.
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        match self {
            Self::General => None,
            Self::Present => Some("What is done with entries that are there"),
            Self::Choosing => Some("Choosing entries"),
            Self::Metadata => Some("Metadata"),
            Self::Reports => Some("Reports"),
            Self::Safety => Some("Safety"),
            Self::Network => Some("Network"),
            Self::Machine => Some("Use of this machine"),
        }
    }
}

/// The program that obeys a setting of a transfer that another machine may carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ObeyedBy {
    /// The process of the command; the setting has no place in the description of a job.
    Process,
    /// The command itself; the setting has no meaning to another machine.
    Here,
    /// The command itself, which turns the setting into rules and tells those: the setting leaves entries out.
    Rules,
    /// The command itself, which tells how a list of names is read.
    ListForm,
    /// The sender, whichever machine it is.
    Sender,
}

/// Where a setting may be given, beside the flags, the environment and the file of its commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GivenIn {
    /// Nowhere else. A job of a node is refused with the name of the setting and this text behind it.
    Command(&'static str),
    /// Also in a job of a node: by the API, in a schedule, and by another site.
    Jobs,
}

/// Of settings that steer the process of a command.
pub(super) const COMMAND_ONLY: GivenIn =
    GivenIn::Command("belongs to a command, and not to a job: leave it out");
/// Of settings about machines that ssh reaches.
pub(super) const SSH_ONLY: GivenIn = GivenIn::Command(
    "is about machines that a command reaches by ssh, and a node uses no ssh: leave it out, and give the node the site with: godwit site add",
);
/// Of the bound on cores.
pub(super) const CORES: GivenIn = GivenIn::Command(
    "bounds the cores of a command; the operator of a node bounds those of its jobs (godwit serve --threads)",
);
/// Of settings that no job has.
pub(super) const NODE_ONLY: GivenIn = GivenIn::Command("is no setting of a job: leave it out");
/// Of settings that choose among entries.
pub(super) const CHOOSING: GivenIn =
    GivenIn::Command("stands in the selection of a job, and not among its settings");

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name: of the flag behind `--`, and of the key in the file.
    pub name: &'static str,
    /// The commands that have it.
    pub scopes: &'static [Scope],
    /// What values it takes.
    pub kind: Kind,
    /// The value where none is given, as a user would write it; empty for an empty list.
    pub default: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// The heading in the help.
    pub heading: Heading,
    /// The program that obeys it. Only settings of `cp` and `sync` can be another machine's.
    pub obeyed_by: ObeyedBy,
    /// Where it may be given.
    pub given_in: GivenIn,
    /// One line.
    pub help: &'static str,
    /// More, for `docs/settings.md` and `--help`; may be empty.
    pub detail: &'static str,
}

impl Setting {
    /// The setting of this name that a command has.
    #[must_use]
    pub fn find(scope: Scope, name: &str) -> Option<&'static Self> {
        Self::all_of(scope).find(|setting| setting.name == name)
    }

    /// All settings of a command, in the table's order.
    pub fn all_of(scope: Scope) -> impl Iterator<Item = &'static Self> {
        SETTINGS
            .iter()
            .filter(move |setting| setting.scopes.contains(&scope))
    }

    /// The letter by which people know the flag.
    #[must_use]
    pub fn letter(&self) -> Option<char> {
        let (_, letter) = LETTERS.iter().find(|(name, _)| *name == self.name)?;
        Some(*letter)
    }

    /// Whether it may be given more than once.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List { .. })
    }
}

/// Settings that people know by a letter, as rsync and scp have it.
pub const LETTERS: &[(&str, char)] = &[
    ("archive", 'a'),
    ("checksum", 'c'),
    ("dry-run", 'n'),
    ("from0", '0'),
    ("one-file-system", 'x'),
    ("recursive", 'r'),
    ("update", 'u'),
    ("verbose", 'v'),
];

/// The most streams of one transfer.
pub const STREAMS_MAX: u32 = 128;
/// The most threads of one kind.
pub const THREADS_MAX: u64 = 1024;
/// The table.
pub const SETTINGS: &[Setting] = &joined(GROUPS);

/// Its parts.
const GROUPS: [&[Setting]; 9] = [
    super::general::GENERAL,
    super::serving::SERVING,
    super::channels::CHANNELS,
    super::machine::MACHINE,
    super::sharing::SHARING,
    super::choices::CHOICES,
    super::comparing::COMPARING,
    super::preserve::PRESERVE,
    super::reports::REPORTS,
];

const SETTING_COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

const fn joined(groups: [&[Setting]; GROUPS.len()]) -> [Setting; SETTING_COUNT] {
    let mut all = [groups[0][0]; SETTING_COUNT];
    let (mut filled, mut group) = (0, 0);
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            all[filled] = groups[group][index];
            filled += 1;
            index += 1;
        }
        group += 1;
    }
    all
}

#[cfg(test)]
mod tests;
