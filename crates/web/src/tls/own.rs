//! Owns the certificate that a node makes for itself: its content, its lifetime, and when it is renewed.
//! Serves no connection: `tls` does.
//!
//! A renewed certificate keeps the key of the previous one, so clients that know the key still trust it. The files are those of
//! [`CertificateSource::Own`](super::CertificateSource::Own).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::{CertificateError, Loaded, read};

/// The certificate, in the directory of the node's own.
const CERTIFICATE: &str = "certificate.pem";

/// The key of that certificate.
const KEY: &str = "key.pem";

const DAY: Duration = Duration::from_hours(24);

/// A client's clock may be behind by this much.
const BEFORE: Duration = DAY;

/// From making a certificate to its end. Some systems refuse lifetimes of more than 825 days.
const GOOD_FOR: Duration = Duration::from_hours(820 * 24);

/// A certificate that ends sooner is renewed.
const RENEW_BEFORE: Duration = Duration::from_hours(90 * 24);

/// Bytes of a random serial number. Browsers refuse two certificates of one key with the same number.
const SERIAL_BYTES: usize = 16;

/// The node's own certificate.
pub(super) struct Own {
    directory: PathBuf,
    host: Option<String>,
    names: Vec<String>,
}

impl Own {
    pub(super) fn new(directory: &Path, host: Option<&String>, names: &[String]) -> Self {
        Self {
            directory: directory.to_owned(),
            host: host.filter(|host| is_name(host)).cloned(),
            names: names.to_vec(),
        }
    }

    /// Certificate and key.
    pub(super) fn files(&self) -> [PathBuf; 2] {
        [self.directory.join(CERTIFICATE), self.directory.join(KEY)]
    }

    /// Makes the certificate if it is missing, ends soon, or lacks a name. Logs the reason, except for the first one.
    pub(super) fn keep(&self, now: SystemTime, log: &dyn Fn(&str)) -> Result<(), CertificateError> {
        let files = self.files();
        if !(files[0].exists() && files[1].exists()) {
            return self.make(now);
        }
        let Some(why) = self.why_renew(&read(&files)?, now) else {
            return Ok(());
        };
        self.make(now)?;
        log(&format!(
            "the API has a new certificate with the same key, because the old certificate {why}"
        ));
        Ok(())
    }

    fn why_renew(&self, loaded: &Loaded, now: SystemTime) -> Option<String> {
        let certificate = loaded.key.cert.first()?;
        let is_good = |at: SystemTime| is_good(certificate, at);
        if !is_good(now) || !is_good(now + RENEW_BEFORE) {
            return Some("ends soon".to_owned());
        }
        // Made by an earlier version, without an end.
        if is_good(now + GOOD_FOR + DAY) {
            return Some("was valid for too long".to_owned());
        }
        let lacking = self.names.iter().find(|name| !has_name(certificate, name));
        lacking.map(|name| format!("was not for {name}"))
    }

    /// ECDSA P-256, which all browsers accept, self-signed.
    fn make(&self, now: SystemTime) -> Result<(), CertificateError> {
        let directory = &self.directory;
        let failed = |error: rcgen::Error| {
            CertificateError::new(directory, format!("no certificate could be made: {error}"))
        };
        let [certificate_file, key_file] = self.files();
        let kept = fs::read_to_string(&key_file).ok();
        let kept = kept.and_then(|text| KeyPair::from_pem(&text).ok());
        let key = match &kept {
            Some(key) => key,
            None => &KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?,
        };
        let mut all = ["localhost", "127.0.0.1", "::1"]
            .map(str::to_owned)
            .to_vec();
        for name in self.host.iter().chain(&self.names) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let mut params = CertificateParams::new(all).map_err(failed)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "godwit node");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.serial_number = Some(serial_number(directory)?);
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since.saturating_sub(BEFORE);
        params.not_after = epoch + since + GOOD_FOR;
        let certificate = params.self_signed(key).map_err(failed)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| CertificateError::new(directory, error))?;
        // The certificate is written last: if it exists, its key exists, too.
        if kept.is_none() {
            write(&key_file, key.serialize_pem().as_bytes(), 0o600)?;
        }
        write(&certificate_file, certificate.pem().as_bytes(), 0o644)
    }
}

fn serial_number(directory: &Path) -> Result<SerialNumber, CertificateError> {
    let mut bytes = [0; SERIAL_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| CertificateError::new(directory, format!("no random numbers: {error}")))?;
    // It is a positive number.
    bytes[0] &= 0x7f;
    Ok(SerialNumber::from_slice(&bytes))
}

/// Whether clients that trust the certificate accept it at this time.
fn is_good(certificate: &CertificateDer<'_>, at: SystemTime) -> bool {
    let mut roots = RootCertStore::empty();
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
        return false;
    };
    if roots.add(certificate.clone().into_owned()).is_err() {
        return false;
    }
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &roots,
        &[],
        UnixTime::since_unix_epoch(since),
        algorithms.all,
    )
    .is_ok()
}

pub(super) fn is_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

fn has_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let parsed = ParsedCertificate::try_from(certificate);
    let (Ok(parsed), Ok(name)) = (parsed, ServerName::try_from(name)) else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}

/// Writes the whole file or nothing.
fn write(file: &Path, content: &[u8], mode: u32) -> Result<(), CertificateError> {
    let partial = file.with_extension("new");
    let written = || -> io::Result<()> {
        // A file from an earlier start may have other permissions.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut open = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&partial)?;
        open.write_all(content)?;
        open.sync_all()?;
        fs::rename(&partial, file)
    };
    written().map_err(|error| CertificateError::new(file, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Mutex;

    use super::*;

    fn own(directory: &Path, names: &[&str]) -> Own {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Own::new(directory, Some(&"dtn1".to_owned()), &names)
    }

    /// Keeps the certificate at that time. Returns the certificate, its key, and the log.
    fn kept(own: &Own, now: SystemTime) -> (Vec<u8>, String, Vec<String>) {
        let lines = Mutex::new(Vec::new());
        own.keep(now, &|line| lines.lock().unwrap().push(line.to_owned()))
            .unwrap();
        let [certificate, key] = own.files();
        let loaded = read(&[certificate, key.clone()]).unwrap();
        let lines = lines.into_inner().unwrap();
        (
            loaded.key.cert[0].to_vec(),
            fs::read_to_string(key).unwrap(),
            lines,
        )
    }

    #[test]
    fn a_certificate_is_good_for_two_years_and_is_renewed_with_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let own = own(directory.path(), &["node.example"]);
        let (first, key, said) = kept(&own, now);
        assert!(said.is_empty(), "{said:?}");
        let der = CertificateDer::from(first.clone());
        let good = |days: u64| is_good(&der, now + DAY * u32::try_from(days).unwrap());
        assert!(good(0) && good(819) && !good(821));
        assert!(!is_good(&der, now - 2 * DAY));
        assert!(has_name(&der, "node.example") && has_name(&der, "dtn1"));
        // The extension that marks a certificate that signs no others: basicConstraints, critical, empty.
        let no_ca = [0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x02, 0x30, 0x00];
        assert!(first.windows(no_ca.len()).any(|part| part == no_ca));
        assert_eq!(kept(&own, now + 700 * DAY).0, first);
        let (second, same, said) = kept(&own, now + 740 * DAY);
        assert_ne!(second, first);
        assert_eq!(same, key);
        assert!(said[0].contains("ends soon"), "{said:?}");
        let der = CertificateDer::from(second);
        assert!(is_good(&der, now + 1_500 * DAY));
    }

    #[test]
    fn a_certificate_without_an_end_or_a_name_is_renewed_with_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let one = own(directory.path(), &[]);
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let [certificate, key] = one.files();
        fs::write(certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        let (_, same, said) = kept(&one, SystemTime::now());
        assert_eq!(same, pair.serialize_pem());
        assert!(said[0].contains("too long"), "{said:?}");
        assert!(kept(&one, SystemTime::now()).2.is_empty());
        let two = own(directory.path(), &["other.example"]);
        let (_, same, said) = kept(&two, SystemTime::now());
        assert_eq!(same, pair.serialize_pem());
        assert!(said[0].contains("other.example"), "{said:?}");
    }
}
