//! Owns secrets in files that only their owner may read, above all bearer tokens. Never prints a
//! secret.

use std::fmt;
use std::path::{Path, PathBuf};

use godwit_sys::secret_file::{self, SecretFileError};
use thiserror::Error;

/// The longest secret file: some hundred bytes, and space for blanks around them.
const FILE_BYTES_MAX: u64 = 4096;

/// A secret that authenticates a user.
#[derive(Clone)]
pub struct Token(String);

/// Reason why a secret file cannot be used.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read, or others may read it.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// The file does not contain exactly one token.
    #[error(
        "the token file {} must hold one token and nothing else, as `godwit token create` prints it",
        path.display()
    )]
    Form {
        /// The file.
        path: PathBuf,
    },
}

impl Token {
    /// Reads a token file.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or it does not contain exactly one token.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let form = || TokenError::Form {
            path: path.to_owned(),
        };
        let text = match read_secret(path) {
            Err(SecretFileError::TooLong { .. }) => return Err(form()),
            text => text?,
        };
        let text = text.trim_ascii();
        let fits = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
        if !fits {
            return Err(form());
        }
        let text = String::from_utf8(text.to_vec()).map_err(|_error| form())?;
        Ok(Self(text))
    }

    /// The value of the header that carries the token.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

/// The content of a file that only its owner may read, above all a password.
///
/// # Errors
/// The file cannot be read, others may read it, or it is longer than a secret.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, SecretFileError> {
    secret_file::read(path, FILE_BYTES_MAX)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn with(content: &[u8], mode: u32) -> Result<Token, TokenError> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        Token::load(&path)
    }

    #[test]
    fn a_token_is_one_word() {
        let token = with(b"  gwt_abc\n", 0o600).expect("a token");
        assert_eq!(token.header(), "Bearer gwt_abc");
        assert!(!format!("{token:?}").contains("gwt"));
        let long = vec![b'x'; 4097];
        for content in [&b""[..], b"\n", b"two words", b"two\nlines", b"\xff", &long] {
            let reported = with(content, 0o600);
            assert!(
                matches!(reported, Err(TokenError::Form { .. })),
                "{reported:?}"
            );
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        for mode in [0o644, 0o640, 0o604, 0o622] {
            let reported = with(b"gwt_abc", mode).expect_err("refused").to_string();
            assert!(reported.contains("chmod 600"), "{reported}");
            assert!(!reported.contains("gwt_abc"), "{reported}");
        }
    }
}
