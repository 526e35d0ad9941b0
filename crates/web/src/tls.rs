//! Owns the certificate of the API: the node's own, or the operator's, which is read again when its file changes.
//! Serves no connection.

mod own;

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use godwit_sys::secret_file;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use thiserror::Error;

use crate::secret::sha256;
use own::{Own, is_name};

/// How often the operator's files are checked, when connections come.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the end of the node's own certificate is checked, when connections come.
const RENEW_EVERY: Duration = Duration::from_hours(1);

/// Longest PEM file. A chain of certificates and a key are far shorter.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Which certificate the API shows.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// A certificate that the node makes and keeps in this directory, for these names and addresses. The node renews
    /// certificate and key before they expire.
    Own {
        /// The directory.
        directory: PathBuf,
        /// Name of the machine when the certificate is made. A later name takes effect only when the certificate is renewed.
        host: Option<String>,
        /// Further names and addresses of the certificate. A certificate that lacks any is renewed.
        names: Vec<String>,
    },
    /// The operator's certificate.
    Files {
        /// The chain, in PEM, the node's own first.
        certificate: PathBuf,
        /// The key, in PEM.
        key: PathBuf,
    },
}

/// Why there is no certificate.
#[derive(Debug, Error)]
#[error("{path}: {what}", path = path.display())]
pub struct CertificateError {
    path: PathBuf,
    what: String,
}

impl CertificateError {
    fn new(path: &Path, what: impl ToString) -> Self {
        Self {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

/// The certificate that is shown now.
pub(crate) struct Certificate {
    files: [PathBuf; 2],
    /// None where the files are the operator's.
    own: Option<Own>,
    now: RwLock<Loaded>,
    looked: Mutex<Looked>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// When the files, and the end of the node's own certificate, were checked last.
struct Looked {
    files: Instant,
    end: Instant,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    stamps: Stamps,
}

/// Stamps that reveal a change of the files.
type Stamps = [Option<(u64, u64, i64, i64, u64)>; 2];

impl Certificate {
    /// Loads the certificate. Makes the node's own if there is none yet.
    pub(crate) fn load(
        source: &CertificateSource,
        log: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, CertificateError> {
        let (files, own) = match source {
            CertificateSource::Own {
                directory,
                host,
                names,
            } => {
                let own = Own::new(directory, host.as_ref(), names);
                own.keep(SystemTime::now(), &*log)?;
                (own.files(), Some(own))
            }
            CertificateSource::Files { certificate, key } => {
                ([certificate.clone(), key.clone()], None)
            }
        };
        let now = RwLock::new(read(&files)?);
        Ok(Self {
            files,
            own,
            now,
            looked: Mutex::new(Looked {
                files: Instant::now(),
                end: Instant::now(),
            }),
            log,
        })
    }

    /// SHA-256 of the certificate, in the form that browsers show.
    pub(crate) fn fingerprint(&self) -> String {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let certificate = now.key.cert.first();
        let digest = sha256(certificate.map_or(&[], |certificate| certificate.as_ref()));
        hexadecimal(digest)
    }

    /// SHA-256 of the certificate's key, which stays when the node renews its own certificate.
    pub(crate) fn key_fingerprint(&self) -> String {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let certificate = now.key.cert.first();
        let parsed = certificate.and_then(|found| ParsedCertificate::try_from(found).ok());
        let key = parsed.map(|parsed| parsed.subject_public_key_info());
        hexadecimal(sha256(key.as_deref().unwrap_or_default()))
    }

    /// Reads the files again if they changed. Unusable files leave the certificate as it is.
    fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.files.elapsed() < LOOK_EVERY {
            return;
        }
        looked.files = Instant::now();
        if let Some(own) = self
            .own
            .as_ref()
            .filter(|_| looked.end.elapsed() > RENEW_EVERY)
        {
            looked.end = Instant::now();
            if let Err(error) = own.keep(SystemTime::now(), &*self.log) {
                (self.log)(&format!(
                    "{error}; the API keeps the certificate that it has"
                ));
            }
        }
        let before = self
            .now
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .stamps;
        if stamps(&self.files) == before {
            return;
        }
        match read(&self.files) {
            Ok(loaded) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                (self.log)(&format!(
                    "the API has a new certificate: {} (SHA-256 {})",
                    self.files[0].display(),
                    self.fingerprint()
                ));
            }
            Err(error) => {
                // Logged once for each state of the files.
                let stamps = stamps(&self.files);
                self.now
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .stamps = stamps;
                (self.log)(&format!(
                    "{error}; the API keeps the certificate that it has"
                ));
            }
        }
    }
}

/// Checks that a source can be used. Makes nothing.
///
/// # Errors
/// A file is missing or is no PEM, the key belongs to another certificate, or a name cannot be in a certificate.
pub fn check_certificate(source: &CertificateSource) -> Result<(), CertificateError> {
    match source {
        CertificateSource::Files { certificate, key } => {
            read(&[certificate.clone(), key.clone()]).map(|_| ())
        }
        CertificateSource::Own {
            directory, names, ..
        } => match names.iter().find(|name| !is_name(name)) {
            Some(name) => {
                let what = format!("{name:?} is neither a name nor an address");
                Err(CertificateError::new(directory, what))
            }
            None => Ok(()),
        },
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.look();
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&now.key))
    }
}

/// Configuration of TLS: version 1.3, HTTP/2 and HTTP/1.1, no client certificates, and no session resumption.
pub(crate) fn server_config(certificate: Arc<Certificate>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn hexadecimal(digest: [u8; 32]) -> String {
    digest.map(|byte| format!("{byte:02X}")).join(":")
}

/// Device, inode, time of the change, and length of each file.
fn stamps(files: &[PathBuf; 2]) -> Stamps {
    let stamp = |file: &PathBuf| {
        let of = |meta: Metadata| {
            (
                meta.dev(),
                meta.ino(),
                meta.ctime(),
                meta.ctime_nsec(),
                meta.len(),
            )
        };
        fs::metadata(file).ok().map(of)
    };
    [stamp(&files[0]), stamp(&files[1])]
}

fn read(files: &[PathBuf; 2]) -> Result<Loaded, CertificateError> {
    let stamps = stamps(files);
    let public = |file: &Path| {
        let length = fs::metadata(file).map_err(|error| CertificateError::new(file, error))?;
        if length.len() > PEM_BYTES_MAX {
            return Err(CertificateError::new(file, "too long for a file in PEM"));
        }
        fs::read(file).map_err(|error| CertificateError::new(file, error))
    };
    let secret = |file: &Path| {
        secret_file::read_own(file, PEM_BYTES_MAX)
            .map_err(|error| CertificateError::new(file, error))
    };
    let [certificate, key] = files;
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&public(certificate)?).collect();
    let chain = chain.map_err(|error| {
        CertificateError::new(certificate, format!("not a certificate in PEM: {error}"))
    })?;
    if chain.is_empty() {
        return Err(CertificateError::new(certificate, "no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_slice(&secret(key)?)
        .map_err(|error| CertificateError::new(key, format!("not a key in PEM: {error}")))?;
    let certified = CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|error| {
            let what = format!(
                "the key cannot be used with {}: {error}",
                certificate.display()
            );
            CertificateError::new(key, what)
        })?;
    Ok(Loaded {
        key: Arc::new(certified),
        stamps,
    })
}
