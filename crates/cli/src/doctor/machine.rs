//! This machine apart from storage and network: open files, and the speed of encryption and digests.
//! Takes a moment of one core.

use godwit_api::settings::{CpSettings, Digest};
use godwit_api::units::human_rate;
use godwit_data_port::probe::{cipher_rate, cores, digest_rate};
use godwit_net::{Cipher, aead};
use godwit_run::ciphers;
use godwit_store::digest::{DigestKind, implementation};
use rustix::process::{Resource, getrlimit};

use super::findings::{Direction, Findings, Limit};

/// A transfer holds some directories and files open, and a connection for each stream.
const OPEN_FILES_MIN: u64 = 512;
const OPEN_FILES_COMFORTABLE: u64 = 1024;

/// Looks at the machine.
pub(super) fn look(settings: &CpSettings, findings: &mut Findings) {
    open_files(findings);
    let cores = u64::from(cores());
    let cores = match settings.threads {
        0 => cores,
        capped => cores.min(u64::from(capped)),
    };
    let Some(cipher) = ciphers(settings.cipher).first().copied() else {
        return;
    };
    let (kind, digest) = match settings.digest {
        Digest::Blake3 => (DigestKind::Blake3, "blake3"),
        _ => (DigestKind::Crc64Nvme, "crc64-nvme"),
    };
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
