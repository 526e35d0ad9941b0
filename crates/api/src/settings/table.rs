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

/// Kind and range of the values of a setting. Ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Bytes.
    Size {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// Only powers of two.
        power_of_two: bool,
    },
    /// Bytes a second; 0 and `none` are no limit.
    Rate,
    /// A time span.
    Duration {
        /// Minimum.
        min: Duration,
        /// Maximum.
        max: Duration,
    },
    /// A plain number.
    Count {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// A number that fixes a count, two numbers that bound it, or `auto`.
    Bounds {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
        /// Maximum with `auto`.
        auto: u32,
    },
    /// A plain number, or `none`.
    CountOrNone,
    /// `true` or `false`; as a flag, its name alone means `true`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text, accepted unchanged.
    Text {
        /// Placeholder for a value.
        form: &'static str,
    },
    /// The path of a file on the machine that runs the job.
    File,
    /// A TCP port, a range of them, or `any`.
    Ports,
    /// Any number of texts.
    List {
        /// Placeholder for one text.
        form: &'static str,
    },
}

/// The heading under which `--help` and the man pages show a setting, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Heading {
    /// The general options, which have no heading.
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
            Self::Present => Some("Treatment of existing entries"),
            Self::Choosing => Some("Choosing entries"),
            Self::Metadata => Some("Metadata"),
            Self::Reports => Some("Reports"),
            Self::Safety => Some("Safety"),
            Self::Network => Some("Network"),
            Self::Machine => Some("Use of this machine"),
        }
    }
}

/// The program that applies a setting of a transfer that another machine may carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ObeyedBy {
    /// The process of the command; the setting has no place in the description of a job.
    Process,
    /// The command itself; the setting has no meaning to another machine.
    Here,
    /// The command itself, which turns the setting into rules for the transfer: the setting leaves entries out.
    Rules,
    /// The command itself, which passes the form of a list of names to the transfer.
    ListForm,
    /// The sender, on either machine.
    Sender,
}

/// Where a setting may be given, beside the flags, the environment and the file of its commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AppliesTo {
    /// Nowhere else. A job of a node with the setting is refused, with the name of the setting and this text.
    Command(&'static str),
    /// Also in a job of a node: by the API, in a schedule, and by another site.
    Jobs,
}

/// For settings that steer the process of a command.
pub(super) const COMMAND_ONLY: AppliesTo =
    AppliesTo::Command("applies to commands, not to jobs: leave this setting out");
/// For settings about machines reached by ssh.
pub(super) const SSH_ONLY: AppliesTo = AppliesTo::Command(
    "applies to machines that a command reaches by ssh, but a node uses no ssh: leave this setting out, and add the site to the node with: godwit site add",
);
/// For the bound on cores.
pub(super) const CORES: AppliesTo = AppliesTo::Command(
    "limits the cores of a command; the operator of a node limits the cores of its jobs (godwit serve --threads)",
);
/// For settings that no job has.
pub(super) const NODE_ONLY: AppliesTo =
    AppliesTo::Command("is not a setting of jobs: leave this setting out");
/// For settings that select entries.
pub(super) const CHOOSING: AppliesTo =
    AppliesTo::Command("belongs in the selection of a job, not in its settings");

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name: of the flag behind `--`, and of the key in the file.
    pub name: &'static str,
    /// The commands that have it.
    pub scopes: &'static [Scope],
    /// Kind and range of its values.
    pub kind: Kind,
    /// The default value, as a user would write it; empty for an empty list.
    pub default: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// The heading in the help.
    pub heading: Heading,
    /// The program that applies the setting. Only settings of `cp` and `sync` can apply on another machine.
    pub obeyed_by: ObeyedBy,
    /// Where it may be given.
    pub applies_to: AppliesTo,
    /// Help in one line.
    pub help: &'static str,
    /// Further text for `docs/settings.md` and `--help`; may be empty.
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

    /// Short flag of the setting.
    #[must_use]
    pub fn letter(&self) -> Option<char> {
        let (_, letter) = LETTERS.iter().find(|(name, _)| *name == self.name)?;
        Some(*letter)
    }

    /// Whether the setting may be given more than once.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List { .. })
    }
}

/// Short flags of settings, as in rsync and scp.
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

/// Most streams of one transfer.
pub const STREAMS_MAX: u32 = 128;
/// Most threads of one kind.
pub const THREADS_MAX: u64 = 1024;
/// The table.
pub const SETTINGS: &[Setting] = &joined(GROUPS);

/// The parts of the table.
const GROUPS: [&[Setting]; 10] = [
    super::general::GENERAL,
    super::by_ssh::BY_SSH,
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
