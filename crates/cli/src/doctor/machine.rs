//! This machine apart from storage and network: open files, energy counters, and the speed of encryption and digests.
//! Takes a moment of one core.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use godwit_api::energy::REMEDY;
use godwit_api::settings::CpSettings;
use godwit_api::units::human_rate;
use godwit_data_port::probe::{cipher_rate, cores, digest_rate};
use godwit_net::{Cipher, aead};
use godwit_run::ciphers;
use godwit_store::digest::implementation;
use rustix::process::{Resource, getrlimit};

use super::findings::{Direction, Findings, Limit};

/// A transfer holds some directories and files open, and a connection for each stream.
const OPEN_FILES_MIN: u64 = 512;
const OPEN_FILES_COMFORTABLE: u64 = 1024;

/// Where Linux counts energy, and the permission of every user to read.
const POWERCAP: &str = "/sys/class/powercap";
const OTHERS_READ: u32 = 0o4;

/// Looks at the machine.
pub(super) fn look(settings: &CpSettings, findings: &mut Findings) {
    open_files(findings);
    energy(Path::new(POWERCAP), findings);
    let cores = u64::from(cores());
    let cores = match settings.threads {
        0 => cores,
        capped => cores.min(u64::from(capped)),
    };
    let Some(cipher) = ciphers(settings.cipher).first().copied() else {
        return;
    };
    let (kind, digest) = (settings.digest, settings.digest.name());
    let digests = digest_rate(kind);
    let Some(seals) = cipher_rate(cipher) else {
        return;
    };
    let other = cipher_rate(Cipher::ChaCha20Poly1305).unwrap_or(0);
    let message = format!(
        "one of {cores} cores encrypts {} with {cipher} ({}), digests {} with {digest}{}",
        human_rate(seals),
        aead::library(),
        human_rate(digests),
        implementation(kind).map_or(String::new(), |by| format!(" ({by})")),
    );
    let mend = if cipher != Cipher::ChaCha20Poly1305 && other > seals {
        "--cipher chacha20-poly1305 is faster on this processor".to_owned()
    } else {
        "if that is too slow: more cores".to_owned()
    };
    if cipher != Cipher::ChaCha20Poly1305 && other > seals {
        findings.note("processor", message, Some(mend.clone()));
    } else {
        findings.fine("processor", message);
    }
    let core = u128::from(seals) * u128::from(digests) / u128::from(seals + digests).max(1);
    let used = cores.min(u64::from(settings.streams.hold(2))).max(1);
    let all = u64::try_from(core * u128::from(used)).unwrap_or(u64::MAX);
    for way in [Direction::Sending, Direction::Receiving] {
        findings.limits.push(Limit {
            name: "processor",
            way,
            what: format!("the processor ({used} streams on {cores} cores)"),
            bytes_per_second: all,
            mend: mend.clone(),
        });
    }
}

/// Looks whether a service may read the energy counters, if the machine has any: it runs as a user without rights.
fn energy(base: &Path, findings: &mut Findings) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let counters = entries
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("intel-rapl:")
        })
        .filter_map(|entry| fs::metadata(entry.path().join("energy_uj")).ok());
    let (readable, hidden): (Vec<_>, Vec<_>) =
        counters.partition(|counter| counter.permissions().mode() & OTHERS_READ != 0);
    match (readable.is_empty(), hidden.is_empty()) {
        (true, true) => {}
        (false, true) => findings.fine("energy", "a node may read the counters".to_owned()),
        (_, false) => findings.note(
            "energy",
            "only root may read the counters, so jobs report no joules of this machine".to_owned(),
            Some(format!("as root, at each boot: {REMEDY}")),
        ),
    }
}

fn open_files(findings: &mut Findings) {
    let Some(soft) = getrlimit(Resource::Nofile).current else {
        return;
    };
    let message = format!("at most {soft} at a time");
    let mend = Some("ulimit -n 65536 (LimitNOFILE= in a systemd unit)".to_owned());
    match soft {
        ..OPEN_FILES_MIN => findings.stop("open files", message, mend),
        OPEN_FILES_MIN..OPEN_FILES_COMFORTABLE => findings.note("open files", message, mend),
        _ => findings.fine("open files", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_only_root_may_read_come_with_the_remedy() {
        let base = tempfile::tempdir().expect("a directory");
        let said = || {
            let mut findings = Findings::default();
            energy(base.path(), &mut findings);
            let one = findings.all.pop();
            one.map(|one| (one.level.name(), one.mend.unwrap_or_default()))
        };
        assert_eq!(said(), None, "a machine without counters");
        let package = base.path().join("intel-rapl:0");
        fs::create_dir(&package).expect("made");
        let counter = package.join("energy_uj");
        fs::write(&counter, "7").expect("written");
        let allow = |mode| fs::set_permissions(&counter, fs::Permissions::from_mode(mode));
        allow(0o400).expect("ours");
        let (level, mend) = said().expect("a finding");
        assert!(mend.contains(REMEDY), "{level}: {mend}");
        allow(0o444).expect("ours");
        assert_eq!(said().expect("a finding").1, "");
    }
}
