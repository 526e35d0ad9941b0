//! Owns passwords: their argon2id hashes, and how many are computed at once.
//! Does not know whose they are.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use godwit_state::Secret;

use crate::problem::ApiError;

/// The shortest password, in signs.
const SIGNS_MIN: usize = 8;

/// The longest password, in bytes: longer ones only cost time.
const BYTES_MAX: usize = 1_024;

/// Hashes that are computed at once: each takes 19 MiB and a core for some 50 ms, and data is to be moved beside it.
pub(crate) const AT_ONCE_MAX: usize = 2;

/// The hash of a new password. Blocks for some 50 ms.
pub(crate) fn hash(password: &str) -> Result<Secret, ApiError> {
    if password.chars().count() < SIGNS_MIN || password.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "password: at least {SIGNS_MIN} signs and at most {BYTES_MAX} bytes"
        )));
    }
    let hash: PasswordHash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(|error| ApiError::internal(format!("the password cannot be hashed: {error}")))?;
    Ok(Secret::new(hash.to_string()))
}

/// Whether the password is the one of the hash. Takes as long where there is no hash, so that nobody learns which users there are.
pub(crate) fn verify(password: &str, hash: Option<&Secret>) -> bool {
    if password.len() > BYTES_MAX {
        return false;
    }
    let parsed = hash.and_then(|hash| PasswordHash::new(hash.expose()).ok());
    let argon = Argon2::default();
    match parsed {
        Some(parsed) => argon.verify_password(password.as_bytes(), &parsed).is_ok(),
        None => {
            // Only the time counts.
            let _ = argon.hash_password_into(password.as_bytes(), &[0; 16], &mut [0; 32]);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again_and_no_other() {
        let made = hash("correct horse").expect("hashed");
        assert!(made.expose().starts_with("$argon2id$"), "{}", made.expose());
        assert!(verify("correct horse", Some(&made)));
        assert!(!verify("correct house", Some(&made)));
        assert!(!verify("correct horse", None));
        assert!(!verify("x", Some(&Secret::new("no hash at all"))));
        assert!(hash("short").is_err());
        assert_ne!(made, hash("correct horse").expect("hashed"));
    }
}
