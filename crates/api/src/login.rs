//! A machine reached by ssh, as people write it: `dtn2`, `alice@dtn2.example.org`, `alice@[2001:db8::7]`.
//! Resolves no name: the host may be an alias that only ssh's own configuration knows.

use crate::host::bracketed;
use std::fmt;

use thiserror::Error;

/// A user and a machine.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Login {
    /// The user there; `None` leaves it to ssh.
    pub user: Option<String>,
    /// A name, an address or an alias; an IPv6 address is without its brackets.
    pub host: String,
}

/// Why a text is no machine for ssh.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum LoginError {
    /// Nothing stands before the colon.
    #[error("the host is missing; for a local file with a colon write ./{0}")]
    NoHost(String),
    /// Invalid host, and the whole text.
    #[error("`{0}` is no host; for a local file with a colon write ./{1}")]
    Host(String, String),
    /// Invalid user, and the whole text.
    #[error("`{0}` is no user; for a local file with a colon write ./{1}")]
    User(String, String),
    /// An IPv6 address without brackets: its correct form, and the whole text.
    #[error("an IPv6 address goes in brackets: {0}; for a local file with a colon write ./{1}")]
    Bare(String, String),
    /// Two colons. For rsync they name a module of its daemon.
    #[error(
        "HOST::MODULE names an rsync daemon, which godwit cannot reach; write HOST:PATH for ssh, or godwit://HOST/EXPORT/PATH for a running node"
    )]
    RsyncDaemon,
}

impl Login {
    /// Splits `[user@]host` off the front of `[user@]host:path`; `None` if no colon precedes the first slash.
    pub(crate) fn split(text: &[u8]) -> Result<Option<(Self, &[u8])>, LoginError> {
        let head = text.split(|byte| *byte == b'/').next().unwrap_or_default();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // Brackets hold the colons of an IPv6 address, behind a user or at the very beginning.
        let opening = head
            .iter()
            .position(|byte| *byte == b'[')
            .filter(|at| *at == 0 || head[at - 1] == b'@');
        let closing = opening.and_then(|opening| {
            let length = head[opening..].windows(2).position(|pair| pair == b"]:")?;
            Some((opening, opening + length))
        });
        let (user, host, rest) = if let Some((opening, closing)) = closing {
            let user = (opening > 0).then(|| &head[..opening - 1]);
            (user, &head[opening + 1..closing], closing + 1)
        } else {
            let Some(colon) = head.iter().position(|byte| *byte == b':') else {
                return Ok(None);
            };
            let name = &head[..colon];
            match name.iter().rposition(|byte| *byte == b'@') {
                Some(at) => (Some(&name[..at]), &name[at + 1..], colon),
                None => (None, name, colon),
            }
        };
        let path = &text[rest + 1..];
        if closing.is_none()
            && let Some(meant) = bare(head, text)
        {
            return Err(LoginError::Bare(meant, lossy(text)));
        }
        if host.is_empty() {
            return Err(LoginError::NoHost(lossy(text)));
        }
        if path.starts_with(b":") {
            return Err(LoginError::RsyncDaemon);
        }
        let word = |bytes: &[u8], more: &[u8]| {
            // Neither an option of ssh nor anything that its configuration could pass to a shell.
            let fits = bytes.len() <= NAME_BYTES_MAX
                && !bytes.starts_with(b"-")
                && bytes.iter().all(|byte| {
                    byte.is_ascii_alphanumeric() || b"-._+%=,".contains(byte) || more.contains(byte)
                });
            fits.then(|| lossy(bytes))
        };
        let colons: &[u8] = if closing.is_some() { b":" } else { b"" };
        let host = word(host, colons).ok_or_else(|| LoginError::Host(lossy(host), lossy(text)))?;
        let no_user = |user| LoginError::User(lossy(user), lossy(text));
        let user = match user {
            Some([]) => return Err(no_user(b"")),
            Some(user) => Some(word(user, b"@").ok_or_else(|| no_user(user))?),
            None => None,
        };
        Ok(Some((Self { user, host }, path)))
    }
}

/// The correct form of a text that begins with an IPv6 address without brackets.
fn bare(head: &[u8], text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let head = std::str::from_utf8(head).ok()?;
    let (user, address) = head
        .split_once('@')
        .map_or(("", head), |(user, rest)| (&text[..=user.len()], rest));
    let (address, rest) = bracketed(address)?;
    let colon = if rest.is_empty() { ":" } else { "" };
    Some(format!(
        "{user}{address}{rest}{colon}{}",
        &text[head.len()..]
    ))
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)
        } else {
            f.write_str(&self.host)
        }
    }
}

/// The longest name of a host or user: the limit of DNS names.
const NAME_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Option<(String, String)>, LoginError> {
        Login::split(text.as_bytes()).map(|found| {
            found.map(|(login, path)| {
                (
                    login.to_string(),
                    String::from_utf8_lossy(path).into_owned(),
                )
            })
        })
    }

    #[test]
    fn machines_as_people_write_them() {
        for (text, login, path) in [
            ("dtn2:", "dtn2", ""),
            ("dtn2:/data/x", "dtn2", "/data/x"),
            ("alice@dtn2:data/a:b", "alice@dtn2", "data/a:b"),
            ("a@b.org@h:x", "a@b.org@h", "x"),
            ("[2001:db8::7]:x", "[2001:db8::7]", "x"),
            ("alice@[fe80::1%eth0]:", "alice@[fe80::1%eth0]", ""),
            ("My_Alias:x", "My_Alias", "x"),
        ] {
            assert_eq!(split(text), Ok(Some((login.into(), path.into()))), "{text}");
        }
        for text in ["a", "./a:b", "/a:b", "a/b:c", "[x]", "[x]/y:z"] {
            assert_eq!(split(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn an_address_without_brackets_is_shown_with_them() {
        for (text, meant) in [
            ("2001:db8::7:/data/", "[2001:db8::7]:/data/"),
            ("::1:/x", "[::1]:/x"),
            ("::1:x", "[::1]:x"),
            ("fe80::1%lo:/x", "[fe80::1%lo]:/x"),
            ("alice@fe80::1%lo:x/y", "alice@[fe80::1%lo]:x/y"),
            ("2001:db8:0:0:0:0:0:7:x", "[2001:db8:0:0:0:0:0:7]:x"),
            ("2001:db8::7", "[2001:db8::7]:"),
        ] {
            let bare = LoginError::Bare(meant.to_owned(), text.to_owned());
            assert_eq!(split(text), Err(bare), "{text}");
        }
        for text in ["cafe::module", "h::m"] {
            assert_eq!(split(text), Err(LoginError::RsyncDaemon), "{text}");
        }
    }

    #[test]
    fn logins_that_ssh_could_misread_are_refused() {
        for text in [
            ":x",
            "@h:x",
            "a@:x",
            "-oProxyCommand=x:y",
            "-l@h:x",
            "a b:x",
            "$(x):y",
            "h;x:y",
            "`x`@h:y",
            "h::m",
            "[::1]::m",
            "ü:x",
        ] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
