//! Restricts the process to some of the cores that it may use.
//! Does not choose them: the user does.

use std::ffi::OsStr;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use godwit_api::failure::Failure;

/// Where the kernel lists the CPUs next to a network interface (sysfs-class-net, and local_cpulist of its PCI device).
const INTERFACES: &str = "/sys/class/net";

/// Restricts the process to the CPUs that `pin` names, a list or a network interface, and of these to the first `threads`.
/// Nothing in `pin`, and 0 `threads`, leave them all.
pub fn restrict(threads: u32, pin: &OsStr) -> Result<(), Failure> {
    if threads == 0 && pin.is_empty() {
        return Ok(());
    }
    let failed = |error: rustix::io::Errno| {
        Failure::local(format!("the cores cannot be restricted: {error}"))
    };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let named = pinned(pin, Path::new(INTERFACES)).map_err(Failure::usage)?;
    let mut kept = CpuSet::new();
    let chosen = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .filter(|core| named.as_ref().is_none_or(|named| named.contains(core)))
        .take(if threads == 0 {
            CpuSet::MAX_CPU
        } else {
            threads as usize
        });
    for core in chosen {
        kept.set(core);
    }
    if kept.count() == 0 {
        return Err(Failure::usage(format!(
            "--pin {}: this process may not run on any of these CPUs; `taskset -p $$` shows the allowed CPUs",
            pin.display()
        )));
    }
    sched_setaffinity(None, &kept).map_err(failed)
}

/// Whether `pin` names CPUs.
pub fn check(pin: &OsStr) -> Result<(), String> {
    pinned(pin, Path::new(INTERFACES)).map(|_| ())
}

/// The CPUs that `pin` names; `None` for all.
fn pinned(pin: &OsStr, interfaces: &Path) -> Result<Option<Vec<usize>>, String> {
    let text = pin.to_string_lossy();
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(cpus) = parse_list(&text) {
        return Ok(Some(cpus));
    }
    let interface = interfaces.join(&*text);
    // A name with a slash would lead elsewhere.
    if text.contains('/') || !interface.is_dir() {
        return Err(format!(
            "--pin {text}: neither a list of CPUs such as 0-7,16, nor a network interface of this machine"
        ));
    }
    let near = std::fs::read_to_string(interface.join("device/local_cpulist")).ok();
    let cpus = near.as_deref().map(str::trim).and_then(parse_list);
    cpus.map(Some).ok_or_else(|| {
        format!(
            "--pin {text}: the kernel does not know which CPUs are close to this interface \
             (only physical network cards have this information); name the CPUs instead"
        )
    })
}

/// A list as the kernel writes it: numbers and ranges, separated by commas.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        for (text, cpus) in [
            ("0", Some(vec![0])),
            ("0-3,8", Some(vec![0, 1, 2, 3, 8])),
            ("5,1-1", Some(vec![5, 1])),
            ("3-1", None),
            ("", None),
            ("1,", None),
            ("-1", None),
            ("+1-2x", None),
            ("0-99999999", None),
        ] {
            assert_eq!(parse_list(text), cpus, "{text}");
        }
    }

    #[test]
    fn an_interface_stands_for_the_cpus_next_to_it() {
        let place = tempfile::tempdir().expect("directory");
        let device = place.path().join("ens1/device");
        std::fs::create_dir_all(&device).expect("made");
        std::fs::write(device.join("local_cpulist"), "0-1,4\n").expect("written");
        std::fs::create_dir(place.path().join("veth0")).expect("made");
        let find = |pin: &str| pinned(OsStr::new(pin), place.path());
        assert_eq!(find(""), Ok(None));
        assert_eq!(find("2"), Ok(Some(vec![2])));
        assert_eq!(find("ens1"), Ok(Some(vec![0, 1, 4])));
        assert!(
            find("veth0")
                .expect_err("no card")
                .contains("name the CPUs instead")
        );
        for unknown in ["ens2", "../ens1", "ens1/device"] {
            assert!(find(unknown).expect_err("unknown").contains("neither"));
        }
    }
}
