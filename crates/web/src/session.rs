//! Owns sessions of the page: their cookie, and what keeps other sites from using it.
//! A session is a token of the state with a scope of its own, so it survives a restart of the node and is revoked as a token.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use data_encoding::HEXLOWER;
use godwit_jobs::now;
use godwit_state::{Change, Op, Token, UnixMillis, User};

use crate::app::App;
use crate::caller::{self, Identified, Request};
use crate::credentials::{self, WORKING_DAY_MS, Wish};
use crate::problem::ApiError;
use crate::secret::sha256;

/// The header that each change needs. A page of another site cannot send it: its browser would ask this node first, which refuses.
const PAGE_HEADER: &str = "x-godwit-page";

/// Begins the name of the cookie; browsers then take it from this host and by TLS only.
const COOKIE_PREFIX: &str = "__Host-godwit-";

/// Bytes of the digest in the name of the cookie: nodes on one host have different identities, and cookies know no ports.
const NAME_BYTES: usize = 4;

/// The scope of tokens that are sessions; behind it stands the id of the token that was exchanged, if any.
const SCOPE: &str = "session";

/// Sessions of a user at once; a further one ends the oldest.
const OF_USER_MAX: usize = 20;

/// The cookies of a request, and whether the page itself sent it.
#[derive(Clone)]
pub(crate) struct Cookie {
    cookies: Vec<String>,
    from_page: bool,
}

impl Cookie {
    /// The cookies of the request that may be sessions.
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        let cookies: Vec<String> = parts
            .headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(';'))
            .map(str::trim)
            .filter(|cookie| cookie.starts_with(COOKIE_PREFIX))
            .map(ToOwned::to_owned)
            .collect();
        (!cookies.is_empty()).then(|| Self {
            cookies,
            from_page: is_from_page(&parts.headers),
        })
    }

    /// The secret of the session at this node.
    fn secret(&self, app: &App) -> Option<&str> {
        let name = name(app);
        self.cookies
            .iter()
            .filter_map(|cookie| cookie.split_once('='))
            .find(|(found, _)| *found == name)
            .map(|(_, secret)| secret)
    }

    /// Whose session it is. A change that the page did not send itself is refused. Blocks.
    pub(crate) fn identify(&self, method: &str, app: &App) -> Result<Identified, ApiError> {
        let secret = self.secret(app).ok_or_else(ended)?;
        if !matches!(method, "GET" | "HEAD") && !self.from_page {
            return Err(ApiError::forbidden(
                "not_from_page",
                "a session changes something only with the header X-Godwit-Page, from a page of this node",
            ));
        }
        find(secret, app).map(|(_, identified)| identified)
    }

    /// Ends the session. Blocks.
    pub(crate) fn end(&self, request: &Request, app: &App) -> Result<(), ApiError> {
        let Some(secret) = self.secret(app) else {
            return Ok(());
        };
        if !self.from_page {
            return self.identify("DELETE", app).map(|_| ());
        }
        let Ok((token, identified)) = find(secret, app) else {
            return Ok(());
        };
        let user = app.reader().object::<User>(&identified.name)?;
        let actor = user.map_or_else(|| request.stranger(), |user| request.actor_of(&user));
        app.propose(actor, Op::Token(Change::Remove(token.id)))
    }
}

/// Whether a page of this node sent the request. Browsers say where a request comes from, and no page can change that.
fn is_from_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    headers.contains_key(PAGE_HEADER)
        && site.is_none_or(|site| site == "same-origin" || site == "none")
}

fn ended() -> ApiError {
    ApiError::unauthenticated("session_ended", "the session has ended; sign in again")
}

/// The token of a session, if it and the token that it was made from are good. Blocks.
fn find(secret: &str, app: &App) -> Result<(Token, Identified), ApiError> {
    let (token, identified) = caller::good(secret, app).map_err(|error| {
        if error.status().is_client_error() {
            ended()
        } else {
            error
        }
    })?;
    let parent = token.scope.strip_prefix(SCOPE).ok_or_else(ended)?;
    let parent = parent.trim_start();
    if !parent.is_empty() {
        let parent = app.reader().object::<Token>(parent)?;
        if parent.is_none_or(|parent| parent.revoked.is_some()) {
            return Err(ended());
        }
    }
    Ok((token, identified))
}

/// Begins a session for a user who has proven who that is, and gives its secret. Blocks.
pub(crate) fn begin(
    app: &App,
    request: &Request,
    user: &User,
    from: Option<&Token>,
) -> Result<(Token, String), ApiError> {
    let at = now();
    let end = at.after(WORKING_DAY_MS);
    let from_end = from.and_then(|token| token.expires);
    let mut open: Vec<Token> = app.reader().objects::<Token>()?;
    open.retain(|token| {
        token.user == user.name
            && token.scope.starts_with(SCOPE)
            && token.revoked.is_none()
            && token.expires.is_none_or(|expires| expires > at)
    });
    open.sort_by_key(|token| token.created);
    let actor = request.actor_of(user);
    let spare = (open.len() + 1).saturating_sub(OF_USER_MAX);
    for token in open.into_iter().take(spare) {
        app.propose(actor.clone(), Op::Token(Change::Remove(token.id)))?;
    }
    let wish = Wish {
        user: &user.name,
        role: from.map_or(user.role, |token| token.role.min(user.role)),
        expires: Some(from_end.map_or(end, |from_end| from_end.min(end))),
        comment: "session of the page".to_owned(),
        scope: from.map_or_else(|| SCOPE.to_owned(), |token| format!("{SCOPE} {}", token.id)),
    };
    credentials::make(app, actor, wish)
}

/// The header that gives a browser the session.
pub(crate) fn set_cookie(app: &App, secret: &str, expires: Option<UnixMillis>) -> String {
    let left = expires.map_or(WORKING_DAY_MS, |end| {
        u64::try_from(end.0.saturating_sub(now().0)).unwrap_or(0)
    });
    let name = name(app);
    let seconds = left / 1_000;
    format!("{name}={secret}; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Strict")
}

/// The header that takes the session from a browser.
pub(crate) fn clear_cookie(app: &App) -> String {
    let name = name(app);
    format!("{name}=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Strict")
}

fn name(app: &App) -> String {
    let digest = sha256(app.node.identity.as_bytes());
    format!("{COOKIE_PREFIX}{}", HEXLOWER.encode(&digest[..NAME_BYTES]))
}
