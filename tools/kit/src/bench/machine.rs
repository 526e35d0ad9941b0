//! Owns the facts about the machine: its description for the report, and the processor time that its host used for
//! others. Changes nothing on it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Serialize;

use super::contender::Stage;
use super::peers::Definition;
use super::world::World;

/// Pairs of a name and a value, in the order in which they are printed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Fact {
    pub(crate) what: &'static str,
    pub(crate) how: String,
}

/// Describes the machine, the directories used and the versions of all programs.
pub(crate) fn describe(world: &World, stage: &Stage, peers: &[&'static Definition]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |what: &'static str, how: Option<String>| {
        let how = how
            .filter(|how| !how.is_empty())
            .unwrap_or_else(|| "unknown".to_owned());
        facts.push(Fact { what, how });
    };
    add("time", first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]));
    add(
        "commit",
        first_line("git", &["describe", "--always", "--dirty", "--abbrev=12"]),
    );
    add("processor", processor());
    add("instructions", instructions());
    // With separate page tables of the kernel each system call is expensive.
    add(
        "meltdown",
        file("/sys/devices/system/cpu/vulnerabilities/meltdown"),
    );
    add(
        "L2 cache",
        file("/sys/devices/system/cpu/cpu0/cache/index2/size"),
    );
    add("memory", line_of("/proc/meminfo", "MemTotal:"));
    add("kernel", first_line("uname", &["-r"]));
    add("ends", Some(stage.place.describe()));
    add("directory", kind_of(world.root()));
    add(
        "free memory",
        memory_goes_back()
            .then(|| "goes back to the host; touched again before each run".to_owned()),
    );
    add(
        "huge pages in tmpfs",
        file("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    );
    if let Ok(disk) = world.disk() {
        add("disk", kind_of(disk));
        let warm = "written through the page cache and synced; read with no contents in it, names and inodes in memory";
        add("state of the page cache", Some(warm.to_owned()));
    }
    add(
        "congestion control",
        file("/proc/sys/net/ipv4/tcp_congestion_control"),
    );
    add("tcp_rmem", file("/proc/sys/net/ipv4/tcp_rmem"));
    add("tcp_wmem", file("/proc/sys/net/ipv4/tcp_wmem"));
    add("rustc", first_line("rustc", &["--version"]));
    add("godwit", first_line(&stage.programs.godwit, &["--version"]));
    add("ciphers and digests", sealing(&stage.programs.godwit));
    for peer in peers {
        add(&peer.title, peer.version_line());
    }
    facts
}

/// Whether this is a virtual machine whose host reclaims free memory: free page reporting of the virtio balloon.
pub(crate) fn memory_goes_back() -> bool {
    const REPORTING: usize = 5; // VIRTIO_BALLOON_F_REPORTING of linux/virtio_balloon.h
    let Ok(devices) = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon") else {
        return false;
    };
    devices.flatten().any(|device| {
        let features = fs::read(device.path().join("features")).unwrap_or_default();
        features.get(REPORTING) == Some(&b'1')
    })
}

/// Processor time of the whole machine so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Reads the counters.
    ///
    /// # Errors
    /// The kernel provides no counters.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&text).context("/proc/stat has another form")
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        // The fields are user, nice, system, idle, iowait, irq, softirq and steal; later fields are part of user
        // and nice.
        let known = fields.get(..8)?;
        Some(Self {
            all: known.iter().sum(),
            stolen: known[7],
        })
    }

    /// The share of processor time, 0 to 1, that the host used for others since `before`.
    #[expect(
        clippy::cast_precision_loss,
        reason = "ticks of one run are far below 2^52"
    )]
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

fn file(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn line_of(path: &str, prefix: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
}

fn processor() -> Option<String> {
    let count = std::thread::available_parallelism().ok()?;
    Some(format!(
        "{count} × {}",
        line_of("/proc/cpuinfo", "model name")?
    ))
}

/// The instruction sets of the processor that speed up ciphers and digests.
fn instructions() -> Option<String> {
    let has = line_of("/proc/cpuinfo", "flags").or_else(|| line_of("/proc/cpuinfo", "Features"))?;
    let wanted = |name: &&str| FAST_BY.contains(name);
    let known: Vec<&str> = has.split_whitespace().filter(wanted).collect();
    Some(known.join(" "))
}

/// The kernel's names of these instruction sets, on x86-64 and arm64.
const FAST_BY: [&str; 7] = [
    "aes",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "avx2",
    "avx512f",
    "pmull",
];

/// The libraries and instructions that the program uses here to encrypt and to compute digests, as the program
/// prints them.
fn sealing(godwit: &Path) -> Option<String> {
    let output = Command::new(godwit).arg("doctor").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains(" encrypts "))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn first_line(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    Some(
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()?
            .trim()
            .to_owned(),
    )
}

/// The type of the file system of `directory`, with the options that matter for speed.
fn kind_of(directory: &Path) -> Option<String> {
    let text = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let (_, kind, options) = mounts
        .filter(|(point, _, _)| directory.starts_with(point))
        .max_by_key(|(point, _, _)| point.len())?;
    Some(format!("{kind} ({options})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_part_of_the_time_between() {
        let before = Ticks::parse("cpu  10 0 10 80 0 0 0 0 5 5\ncpu0 1").expect("counters");
        let after = Ticks::parse("cpu  50 0 20 120 0 0 0 10 25 5\n").expect("counters");
        assert!((after.stolen_since(before) - 0.1).abs() < 1e-9);
        assert!(
            before.stolen_since(after).abs() < 1e-9,
            "counters that ran backwards"
        );
        assert_eq!(Ticks::parse("cpu  1 2 3"), None);
    }

    #[test]
    fn a_real_kernel_is_understood() {
        Ticks::now().expect("counters");
        assert!(kind_of(Path::new("/proc")).is_some_and(|kind| kind.starts_with("proc")));
    }
}
