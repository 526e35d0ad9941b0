//! Owns the certificate of the API: one that the node made, or the operator's, which is read again when its file changes.
//! Serves no connection.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use godwit_sys::secret_file;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use thiserror::Error;

use crate::secret::sha256;

/// The certificate that the node made, in its directory.
const CERTIFICATE: &str = "certificate.pem";

/// The key of that certificate.
const KEY: &str = "key.pem";

/// How often the operator's files are looked at, when connections come.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A chain of certificates and a key are far shorter.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Which certificate the API shows.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// One that the node makes once and keeps in this directory, for these names and addresses.
    Own {
        /// The directory.
        directory: PathBuf,
        /// Name of the machine when the certificate is made; a later name changes nothing, for clients know the certificate.
        host: Option<String>,
        /// Further names and addresses that the certificate must have; one that lacks any is made anew.
        names: Vec<String>,
    },
    /// The operator's.
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
    now: RwLock<Loaded>,
    looked: Mutex<Instant>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    stamps: Stamps,
}

/// By these a change of the files is seen.
type Stamps = [Option<(u64, u64, i64, i64, u64)>; 2];

impl Certificate {
    /// Loads the certificate; makes the node's own where there is none yet.
    pub(crate) fn load(
        source: &CertificateSource,
        log: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, CertificateError> {
        let files = match source {
            CertificateSource::Own {
                directory,
                host,
                names,
            } => {
                let files = [directory.join(CERTIFICATE), directory.join(KEY)];
                let lacking = match files[0].exists() && files[1].exists() {
                    true => read(&files).map(|loaded| missing(&loaded, names))?,
                    false => Some(String::new()),
                };
                if let Some(name) = lacking {
                    if !name.is_empty() {
                        log(&format!(
                            "the API has a new certificate, for the old one was not for {name}"
                        ));
                    }
                    let host = host.iter().filter(|host| is_name(host));
                    let names: Vec<String> = host.chain(names).cloned().collect();
                    make(directory, &files, &names)?;
                }
                files
            }
            CertificateSource::Files { certificate, key } => [certificate.clone(), key.clone()],
        };
        let now = RwLock::new(read(&files)?);
        Ok(Self {
            files,
            now,
            looked: Mutex::new(Instant::now()),
            log,
        })
    }

    /// SHA-256 of the certificate, in the form that browsers show.
    pub(crate) fn fingerprint(&self) -> String {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let certificate = now.key.cert.first();
        let digest = sha256(certificate.map_or(&[], |certificate| certificate.as_ref()));
        digest.map(|byte| format!("{byte:02X}")).join(":")
    }

    /// Reads the files again if they changed. Files that cannot be used leave the certificate as it is.
    fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK_EVERY {
            return;
        }
        *looked = Instant::now();
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
                // Said once for each state of the files.
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

/// Whether a source can be used. Makes nothing.
///
/// # Errors
/// A file is missing, is no PEM, or the key is that of another certificate; or a name can stand in no certificate.
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

fn is_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// The first of the names that the certificate does not have.
fn missing(loaded: &Loaded, names: &[String]) -> Option<String> {
    let has = |name: &String| {
        let certificate = loaded.key.cert.first();
        let parsed = certificate.map(ParsedCertificate::try_from);
        let (Some(Ok(parsed)), Ok(name)) = (parsed, ServerName::try_from(name.as_str())) else {
            return false;
        };
        verify_server_name(&parsed, &name).is_ok()
    };
    names.iter().find(|name| !has(name)).cloned()
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

/// What TLS needs: version 1.3, HTTP/2 and HTTP/1.1, no certificate of the client.
pub(crate) fn server_config(certificate: Arc<Certificate>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
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
        secret_file::read(file, PEM_BYTES_MAX).map_err(|error| CertificateError::new(file, error))
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

/// Makes the node's own certificate: ECDSA P-256, which all browsers accept, signed by itself.
fn make(directory: &Path, files: &[PathBuf; 2], names: &[String]) -> Result<(), CertificateError> {
    let failed = |error: rcgen::Error| {
        CertificateError::new(directory, format!("no certificate could be made: {error}"))
    };
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let mut all = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    all.extend(
        names
            .iter()
            .filter(|name| !all.contains(name))
            .cloned()
            .collect::<Vec<_>>(),
    );
    let mut params = CertificateParams::new(all).map_err(failed)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "godwit node");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key).map_err(failed)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| CertificateError::new(directory, error))?;
    // The certificate comes last: where it is, its key is, too.
    write(&files[1], key.serialize_pem().as_bytes(), 0o600)?;
    write(&files[0], certificate.pem().as_bytes(), 0o644)
}

/// Writes the file whole or not at all.
fn write(file: &Path, content: &[u8], mode: u32) -> Result<(), CertificateError> {
    let partial = file.with_extension("new");
    let written = || -> io::Result<()> {
        // What an earlier start left behind may have other permissions.
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
