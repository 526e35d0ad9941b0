//! Owns a certificate for one server of one run, in the forms that programs need to trust it. The
//! certificate proves nothing to other programs.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::shell;

/// Files of one certificate.
pub(super) struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    /// A directory with the certificate under the name that OpenSSL looks for.
    authorities: PathBuf,
}

impl Certificate {
    /// Makes a certificate for `names` in `directory`, unless one exists there.
    pub(super) fn make(directory: &Path, names: &[&str]) -> anyhow::Result<Self> {
        let made = Self {
            certificate: directory.join("certificate.pem"),
            key: directory.join("key.pem"),
            authorities: directory.join("authorities"),
        };
        if made.authorities.exists() {
            return Ok(made);
        }
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let signed =
            rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
        fs::write(&made.certificate, signed.cert.pem())?;
        let mut key = fs::OpenOptions::new();
        key.write(true).create_new(true).mode(0o600);
        std::io::Write::write_all(
            &mut key.open(&made.key)?,
            signed.signing_key.serialize_pem().as_bytes(),
        )?;
        fs::create_dir(&made.authorities)?;
        let link = format!(
            "command -v openssl >/dev/null || exit 0; \
             cp {0} {1}/$(openssl x509 -in {0} -noout -subject_hash).0",
            made.certificate.display(),
            made.authorities.display()
        );
        let output = shell(&link).output().context("cannot run a shell")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl x509: {}", error.trim());
        Ok(made)
    }

    /// The words of definitions and the paths that replace them.
    pub(super) fn paths(&self) -> [(&'static str, &Path); 3] {
        [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("authorities", &self.authorities),
        ]
    }
}
