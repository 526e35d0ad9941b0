//! The table of all settings: name, kind, range, default, commands and text of each.
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
    /// All of them, in the manual's order.
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
    /// A TCP port, a range of them, or `any`.
    Ports,
    /// Any number of texts.
    List {
        /// What one of them looks like.
        form: &'static str,
    },
}

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
    /// One line.
    pub help: &'static str,
    /// More, for the manual and `--help`; may be empty.
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

    /// Whether it may be given more than once.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List { .. })
    }
}

/// What moves data; `cp` stands for both.
const CP: &[Scope] = &[Scope::Cp, Scope::Sync];
const SERVE: &[Scope] = &[Scope::Serve];
const BOTH: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Serve];
const CLIENT: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Verify];
const NETWORK: &[Scope] = &[Scope::Cp, Scope::Sync, Scope::Serve, Scope::Verify];
const WORKING: &[Scope] = &[
    Scope::Cp,
    Scope::Sync,
    Scope::Serve,
    Scope::Verify,
    Scope::Manifest,
];

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The most streams of one transfer.
pub const STREAMS_MAX: u32 = 128;
/// The most threads of one kind.
pub const THREADS_MAX: u64 = 1024;
/// Threads beside those of the streams. What has once seemed to win a tenth stays, so few are tried unasked.
const BESIDE: Kind = Kind::Bounds {
    min: 0,
    max: 64,
    auto: 16,
};

/// The table.
pub const SETTINGS: &[Setting] = &joined(GROUPS);

/// Its parts, in the manual's order.
const GROUPS: [&[Setting]; 8] = [
    GENERAL,
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

const GENERAL: &[Setting] = &[
    Setting {
        name: "limit",
        scopes: CP,
        kind: Kind::Rate,
        default: "none",
        variable: "GODWIT_LIMIT",
        help: "Send no faster than this",
        detail: "Counts file contents, in bytes or bits a second: `300MB`, `2.5Gbit/s`.",
    },
    Setting {
        name: "streams",
        scopes: CP,
        kind: Kind::Bounds {
            min: 1,
            max: STREAMS_MAX,
            auto: STREAMS_MAX,
        },
        default: "auto",
        variable: "GODWIT_STREAMS",
        help: "TCP connections that carry the transfer",
        detail: "By itself it begins with two, or with as many as a long way with small buffers needs, and finds out while it runs whether more or fewer are better. \
                 One number fixes them; `4..16` leaves the choice between the two. What is decided is in `--log-file` and `--json`, and with `--verbose` on the screen; see docs/tuning.md.",
    },
    Setting {
        name: "threads",
        scopes: WORKING,
        kind: Kind::Count {
            min: 0,
            max: THREADS_MAX,
        },
        default: "0",
        variable: "GODWIT_THREADS",
        help: "Cores to use at most; 0 uses all",
        detail: "",
    },
    Setting {
        name: "readers",
        scopes: BOTH,
        kind: BESIDE,
        default: "auto",
        variable: "GODWIT_READERS",
        help: "Threads that read files at the source",
        detail: "They read ahead of the streams, which read for themselves as well. One number fixes them, 0 is none; `2..8` leaves the choice between the two, `auto` is `0..16`. Where the streams' threads wait for storage, more are tried, and kept if they win a tenth; where they do not wait, fewer.",
    },
    Setting {
        name: "writers",
        scopes: BOTH,
        kind: BESIDE,
        default: "auto",
        variable: "GODWIT_WRITERS",
        help: "Threads that write files at the destination",
        detail: "They write for the streams, which write for themselves as well. One number fixes them, 0 is none; `2..8` leaves the choice between the two, `auto` is `0..16`. Where the streams' threads wait for storage, more are tried, and kept if they win a tenth; where they do not wait, fewer.",
    },
    Setting {
        name: "encryption",
        scopes: CP,
        kind: Kind::Choice(&["tls", "none"]),
        default: "tls",
        variable: "GODWIT_ENCRYPTION",
        help: "Whether file contents are encrypted on the network",
        detail: "`none` sends file contents in clear, and only those: names, digests and all that steers the transfer \
                 stay inside TLS. It does not withstand an active attacker, and the node must allow it \
                 (`serve --encryption any`).",
    },
    Setting {
        name: "encryption",
        scopes: SERVE,
        kind: Kind::Choice(&["tls", "any"]),
        default: "tls",
        variable: "GODWIT_SERVE_ENCRYPTION",
        help: "Which encryption a client may ask for",
        detail: "`any` lets a client ask for `--encryption none`; what it does not ask for it does not get.",
    },
    Setting {
        name: "cipher",
        scopes: CLIENT,
        kind: Kind::Choice(&["aes-256-gcm", "aes-128-gcm", "chacha20-poly1305"]),
        default: "aes-256-gcm",
        variable: "GODWIT_CIPHER",
        help: "The cipher of TLS 1.3",
        detail: "",
    },
    Setting {
        name: "digest",
        scopes: &[Scope::Cp, Scope::Sync, Scope::Manifest],
        kind: Kind::Choice(&["crc64-nvme", "blake3"]),
        default: "crc64-nvme",
        variable: "GODWIT_DIGEST",
        help: "The digest of blocks and files",
        detail: "`crc64-nvme` finds accidents and costs next to nothing; `blake3` is a cryptographic one, the same that `b3sum` prints.",
    },
    Setting {
        name: "retry-for",
        scopes: CLIENT,
        kind: Kind::Duration {
            min: seconds(0),
            max: seconds(30 * 86_400),
        },
        default: "5min",
        variable: "GODWIT_RETRY_FOR",
        help: "How long to go on trying while no connection works",
        detail: "Counted anew from each loss of the last connection. Afterwards the transfer ends with exit code 5, and the same command resumes it. What cannot be reached in the first place fails at once, with exit code 1.",
    },
    Setting {
        name: "no-sync",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_NO_SYNC",
        help: "Do not wait until the destination's storage has made the data durable",
        detail: "Faster on slow disks. A power cut at the destination, during the transfer or some time after it, may then leave files \
                 under their final names that are short, empty or hold zeros, and a resumed transfer may take them for complete.",
    },
    Setting {
        name: "verify",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_VERIFY",
        help: "Read every file back at the destination before it gets its name",
        detail: "Past the page cache where the file system allows it. Every block is checked before it is written even without this.",
    },
    Setting {
        name: "force",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_FORCE",
        help: "Send files whose size and modification time already match, too",
        detail: "",
    },
    Setting {
        name: "json",
        scopes: CLIENT,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_JSON",
        help: "Print one JSON object per line instead of text",
        detail: "",
    },
    Setting {
        name: "block-size",
        scopes: CP,
        kind: Kind::Size {
            min: 64 << 10,
            max: 4 << 20,
            power_of_two: true,
        },
        default: "512KiB",
        variable: "GODWIT_BLOCK_SIZE",
        help: "The unit of reading, sending and writing",
        detail: "Small enough to stay in a core's L2 cache is fastest.",
    },
    Setting {
        name: "memory",
        scopes: BOTH,
        kind: Kind::Size {
            min: 8 << 20,
            max: 1 << 30,
            power_of_two: false,
        },
        default: "64MiB",
        variable: "GODWIT_MEMORY",
        help: "Memory for blocks on their way",
        detail: "On this machine, for each transfer. The rest of what the program needs is small and does not grow with the data set.",
    },
    Setting {
        name: "handshake-deadline",
        scopes: NETWORK,
        kind: Kind::Duration {
            min: seconds(1),
            max: seconds(600),
        },
        default: "10s",
        variable: "GODWIT_HANDSHAKE_DEADLINE",
        help: "How long a new connection may take until it has said who it is",
        detail: "",
    },
    Setting {
        name: "stall-deadline",
        scopes: NETWORK,
        kind: Kind::Duration {
            min: seconds(1),
            max: seconds(3_600),
        },
        default: "2min",
        variable: "GODWIT_STALL_DEADLINE",
        help: "How long a connection may stand still before it counts as lost",
        detail: "",
    },
    Setting {
        name: "rsh",
        scopes: CLIENT,
        kind: Kind::Text { form: "COMMAND" },
        default: "ssh",
        variable: "GODWIT_RSH",
        help: "The program that reaches the machine in HOST:PATH, and its options",
        detail: "As in `ssh -p 2222 -i key`; a word with spaces goes in quotes. It reads its own configuration.",
    },
    Setting {
        name: "remote-command",
        scopes: CLIENT,
        kind: Kind::Text { form: "COMMAND" },
        default: "godwit",
        variable: "GODWIT_REMOTE_COMMAND",
        help: "How godwit is called on the machine in HOST:PATH",
        detail: "The shell there reads it, as in `~/bin/godwit` or `sudo godwit`.",
    },
    Setting {
        name: "data-ports",
        scopes: CP,
        kind: Kind::Ports,
        default: "any",
        variable: "GODWIT_DATA_PORTS",
        help: "TCP ports that may be listened on for the data of HOST:PATH",
        detail: "On either machine: data is sent by TCP beside ssh, in whichever direction a firewall lets it through. `50000-50100` is a range.",
    },
    Setting {
        name: "via-ssh",
        scopes: CP,
        kind: Kind::Flag,
        default: "false",
        variable: "GODWIT_VIA_SSH",
        help: "Send the data of HOST:PATH through ssh itself, not beside it",
        detail: "Needs no other port than that of ssh, and is slower: each stream is an ssh connection of its own.",
    },
    Setting {
        name: "listen",
        scopes: SERVE,
        kind: Kind::List {
            form: "ADDRESS[:PORT]",
        },
        default: "0.0.0.0:7272",
        variable: "GODWIT_LISTEN",
        help: "Address to listen on (repeatable)",
        detail: "Port 0 takes any free one; the address in use is printed.",
    },
    Setting {
        name: "export",
        scopes: SERVE,
        kind: Kind::List {
            form: "NAME=PATH[,set-id][,owner][,security-xattrs][,devices]",
        },
        default: "",
        variable: "GODWIT_EXPORT",
        help: "A directory that granted clients may reach, and its name (repeatable)",
        detail: "With `set-id` the set-user-id and set-group-id bits of arriving files are applied; with `owner` \
                 their owner and group are. Without them such files arrive as ordinary ones of the daemon's user.",
    },
    Setting {
        name: "connections-per-peer",
        scopes: SERVE,
        kind: Kind::Count { min: 1, max: 4_096 },
        default: "512",
        variable: "GODWIT_CONNECTIONS_PER_PEER",
        help: "Connections that one client may have open at a time",
        detail: "",
    },
    Setting {
        name: "connections-max",
        scopes: SERVE,
        kind: Kind::Count {
            min: 1,
            max: 65_536,
        },
        default: "1024",
        variable: "GODWIT_CONNECTIONS_MAX",
        help: "Connections that all clients together may have open at a time",
        detail: "",
    },
    Setting {
        name: "transfers-per-peer",
        scopes: SERVE,
        kind: Kind::Count { min: 1, max: 4_096 },
        default: "128",
        variable: "GODWIT_TRANSFERS_PER_PEER",
        help: "Transfers that one client may have at a time, interrupted ones included",
        detail: "",
    },
    Setting {
        name: "transfers-max",
        scopes: SERVE,
        kind: Kind::Count {
            min: 1,
            max: 65_536,
        },
        default: "1024",
        variable: "GODWIT_TRANSFERS_MAX",
        help: "Transfers that all clients together may have at a time, interrupted ones included",
        detail: "A new transfer beyond this number takes the place of an interrupted one, which can still be resumed.",
    },
    Setting {
        name: "keep-for",
        scopes: SERVE,
        kind: Kind::Duration {
            min: seconds(0),
            max: seconds(30 * 86_400),
        },
        default: "24h",
        variable: "GODWIT_KEEP_FOR",
        help: "The longest time that an interrupted transfer keeps its destination from others",
        detail: "A client asks for its `--retry-for`, and gets no more than this. An interrupted transfer can be resumed \
                 afterwards, too.",
    },
    Setting {
        name: "seed",
        scopes: &[Scope::Gen],
        kind: Kind::Count {
            min: 0,
            max: u64::MAX,
        },
        default: "0",
        variable: "GODWIT_SEED",
        help: "The seed of names and contents: the same seed makes the same data set",
        detail: "",
    },
];

#[cfg(test)]
mod tests;
