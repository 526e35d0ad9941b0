//! Owns the identity of a node or user: an Ed25519 key, its self-signed certificate, and their short name. Does
//! not decide rights.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, BASE32_NOPAD_NOCASE};
use godwit_sys::secret_file::{self, SecretFileError};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::home::{HomeError, HomeLock, make_home, write_atomically};

/// The public name of an identity: `gw1-` and 52 lower-case base32 digits of the SHA-256 of its public key
/// (`SubjectPublicKeyInfo`, DER).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdentityId([u8; 32]);

impl IdentityId {
    /// The identity that holds the key of `certificate`.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        Ok(Self::of_public_key(&key))
    }

    pub(crate) fn of_public_key(subject_public_key_info: &[u8]) -> Self {
        let mut id = [0; 32];
        if let Some(suite) = TLS13_AES_128_GCM_SHA256.tls13() {
            let hash = suite.common.hash_provider.hash(subject_public_key_info);
            id.copy_from_slice(hash.as_ref());
        }
        Self(id)
    }
}

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = BASE32_NOPAD.encode(&self.0).to_lowercase();
        write!(f, "{ID_PREFIX}{digits}")
    }
}

impl fmt::Debug for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no valid identity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not an identity, which is gw1- and {ID_DIGITS} letters and digits, as printed by `godwit id`"
)]
pub struct IdentityIdError {
    text: String,
}

impl FromStr for IdentityId {
    type Err = IdentityIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix(ID_PREFIX)
            .filter(|digits| digits.len() == ID_DIGITS)
            .and_then(|digits| BASE32_NOPAD_NOCASE.decode(digits.as_bytes()).ok())
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| IdentityIdError {
                text: text.to_owned(),
            })
    }
}

/// A private key with its certificate.
#[derive(Debug)]
pub struct Identity {
    id: IdentityId,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// Reason why no identity is available.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The directory or the file could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Other users may read or write the key.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    /// The file does not contain a valid identity.
    #[error("{}: {what}; restore the file, or move it away to get a new identity", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
        /// The fault in the file.
        what: String,
    },
    /// No key could be generated.
    #[error("cannot make a key: {0}")]
    Generate(String),
}

impl Identity {
    /// The identity stored in `home`; created on the first call.
    ///
    /// # Errors
    /// The directory or file cannot be used or is damaged, or the key is open to others.
    pub fn load_or_create(home: &Path) -> Result<Self, IdentityError> {
        make_home(home)?;
        let path = home.join(FILE_NAME);
        if let Some(identity) = Self::load(&path)? {
            return Ok(identity);
        }
        let _lock = HomeLock::take(home)?;
        // Another process may have created the key first.
        if let Some(identity) = Self::load(&path)? {
            return Ok(identity);
        }
        let pem = generate().map_err(|error| IdentityError::Generate(error.to_string()))?;
        write_atomically(home, FILE_NAME, pem.as_bytes())?;
        Self::parse(&path, pem.as_bytes())
    }

    /// The identity stored in `home`, if there is one. Creates nothing.
    ///
    /// # Errors
    /// The file cannot be used or is damaged, or the key is open to others.
    pub fn find(home: &Path) -> Result<Option<Self>, IdentityError> {
        Self::load(&home.join(FILE_NAME))
    }

    /// A new identity that is not stored: for one transfer.
    ///
    /// # Errors
    /// No key can be generated.
    pub fn ephemeral() -> Result<Self, IdentityError> {
        let pem = generate().map_err(|error| IdentityError::Generate(error.to_string()))?;
        Self::parse(Path::new("a new key"), pem.as_bytes())
    }

    /// The public name.
    #[must_use]
    pub fn id(&self) -> &IdentityId {
        &self.id
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    fn load(path: &Path) -> Result<Option<Self>, IdentityError> {
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(OPEN_FLAGS)
            .open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HomeError::new("open", path, error).into()),
        };
        secret_file::check(path, &file)?;
        let mut pem = Vec::new();
        file.by_ref()
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut pem)
            .map_err(|error| HomeError::new("read", path, error))?;
        Self::parse(path, &pem).map(Some)
    }

    fn parse(path: &Path, pem: &[u8]) -> Result<Self, IdentityError> {
        let malformed = |what: &str| IdentityError::Malformed {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let key = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| malformed(&format!("no private key in it ({error})")))?;
        let certificate = CertificateDer::from_pem_slice(pem)
            .map_err(|error| malformed(&format!("no certificate in it ({error})")))?
            .into_owned();
        let signer = any_supported_type(&key)
            .map_err(|error| malformed(&format!("an unusable key ({error})")))?;
        CertifiedKey::new(vec![certificate.clone()], signer)
            .keys_match()
            .map_err(|error| malformed(&format!("key and certificate do not match ({error})")))?;
        let id = IdentityId::of_certificate(&certificate)
            .map_err(|error| malformed(&format!("a damaged certificate ({error})")))?;
        Ok(Self {
            id,
            certificate,
            key,
        })
    }
}

/// Generates a key and a certificate that never expires: peers pin the key, so no authority is needed.
fn generate() -> Result<String, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut parameters = CertificateParams::new(vec!["godwit".to_owned()])?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "godwit");
    parameters.distinguished_name = name;
    let certificate = parameters.self_signed(&key)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

const ID_PREFIX: &str = "gw1-";
/// 256 bits, five per digit.
const ID_DIGITS: usize = 52;
const FILE_NAME: &str = "identity.pem";
/// A key and a certificate are about 600 bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Refuses a symbolic link, which could lead to another key, and does not block on a pipe.
const OPEN_FLAGS: i32 = {
    #[expect(clippy::cast_possible_wrap, reason = "flags fit in 31 bits")]
    let flags = rustix::fs::OFlags::NOFOLLOW
        .union(rustix::fs::OFlags::NONBLOCK)
        .bits() as i32;
    flags
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::PublicKeyData;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn is_made_once_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("a/b");
        let made = Identity::load_or_create(&home).unwrap();
        let found = Identity::load_or_create(&home).unwrap();
        assert_eq!(made.id(), found.id());
        assert_eq!(mode(&home), 0o700);
        assert_eq!(mode(&home.join(FILE_NAME)), 0o600);
        assert_eq!(made.id().to_string().parse(), Ok(*found.id()));
    }

    #[test]
    fn is_made_once_by_many_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| *Identity::load_or_create(directory.path()).unwrap().id()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }

    #[test]
    fn is_named_by_its_public_key_alone() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(directory.path()).unwrap();
        let pem = fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
        let key = KeyPair::from_pem(&pem).unwrap();
        assert_eq!(
            *identity.id(),
            IdentityId::of_public_key(&key.subject_public_key_info())
        );
    }

    #[test]
    fn a_key_open_to_others_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        Identity::load_or_create(directory.path()).unwrap();
        let path = directory.path().join(FILE_NAME);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = Identity::load_or_create(directory.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("chmod 600 {}", path.display())),
            "{error}"
        );
    }

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        Identity::load_or_create(directory.path()).unwrap();
        fs::write(&path, "not a key\n").unwrap();
        assert!(matches!(
            Identity::load_or_create(directory.path()),
            Err(IdentityError::Malformed { .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "not a key\n");
    }

    #[test]
    fn a_key_with_anothers_certificate_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        Identity::load_or_create(directory.path()).unwrap();
        let path = directory.path().join(FILE_NAME);
        let ours = fs::read_to_string(&path).unwrap();
        let theirs = generate().unwrap();
        let at = |pem: &str| pem.find("-----BEGIN CERTIFICATE").unwrap();
        fs::write(
            &path,
            format!("{}{}", &ours[..at(&ours)], &theirs[at(&theirs)..]),
        )
        .unwrap();
        assert!(matches!(
            Identity::load_or_create(directory.path()),
            Err(IdentityError::Malformed { .. })
        ));
    }

    proptest! {
        #[test]
        fn an_id_survives_its_text(bytes: [u8; 32]) {
            let id = IdentityId(bytes);
            let text = id.to_string();
            prop_assert_eq!(text.len(), ID_PREFIX.len() + ID_DIGITS);
            prop_assert_eq!(text.parse(), Ok(id));
        }

        #[test]
        fn any_text_is_an_id_or_refused(text in "(gw1-)?[a-z2-7]{0,60}") {
            if let Ok(id) = text.parse::<IdentityId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
