//! Owns the cookie that marks a browser in which a user signed in before. Others cannot lock such a browser out.
//! Proves no user: a password is needed all the same.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use data_encoding::BASE32_NOPAD;

use crate::logins::KNOWN_FOR;

/// Browsers take a cookie of this prefix from this host and by TLS only.
const NAME: &str = "__Host-known-to-godwit";

/// Random bytes of a secret, and the signs that stand for them.
const SECRET_BYTES: usize = 32;
const SECRET_SIGNS: usize = 52;

/// A new secret.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn make() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(BASE32_NOPAD.encode(&bytes).to_lowercase())
}

/// The secret that the browser keeps. Nodes of one host share it, for cookies know no ports.
pub(crate) fn secret(headers: &HeaderMap) -> Option<String> {
    let texts = headers.get_all(COOKIE).iter();
    let mut cookies = texts
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='));
    let (_, secret) = cookies.find(|(name, _)| *name == NAME)?;
    (secret.len() == SECRET_SIGNS).then(|| secret.to_owned())
}

/// The header that has a browser keep the secret.
pub(crate) fn set_cookie(secret: &str) -> String {
    let seconds = KNOWN_FOR.as_secs();
    format!("{NAME}={secret}; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Strict")
}
