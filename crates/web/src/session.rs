//! Owns sessions of the page: their cookie, and the protection against other sites.
//! A session is a token of the state, so it survives a restart of the node and is revoked as a token. It is valid only as a cookie.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use data_encoding::HEXLOWER;
use godwit_api::failure::FailureCode;
use godwit_jobs::now;
use godwit_state::{Change, Op, Timestamp, Token, TokenOrigin, User};

use crate::app::App;
use crate::caller::{Identified, Request};
use crate::credentials::{self, WORKING_DAY_MS, Wish};
use crate::problem::ApiError;
use crate::secret::sha256;
use crate::standing::{self, Shown, Standing};

/// The header that each change needs. A page of another site cannot send it: its browser would ask this node first, and this node refuses.
const PAGE_HEADER: &str = "x-godwit-page";

/// Prefix of the cookie name. Browsers then accept the cookie from this host and by TLS only.
const COOKIE_PREFIX: &str = "__Host-godwit-";

/// Bytes of the digest in the name of the cookie: nodes on one host have different identities, and cookies know no ports.
const NAME_BYTES: usize = 4;

/// Sessions of a user at once. A further session ends the oldest.
const OF_USER_MAX: usize = 20;

/// The cookies of a request, and its origin.
#[derive(Clone)]
pub(crate) struct Cookie {
    cookies: Vec<String>,
    /// A page of another origin made the browser send the request.
    from_elsewhere: bool,
    /// The page's own script sent the request.
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
            from_elsewhere: is_from_elsewhere(&parts.headers),
            from_page: parts.headers.contains_key(PAGE_HEADER),
        })
    }

    /// The secret of the session at this node.
    pub(crate) fn secret(&self, app: &App) -> Option<&str> {
        let name = name(app);
        self.cookies
            .iter()
            .filter_map(|cookie| cookie.split_once('='))
            .find(|(found, _)| *found == name)
            .map(|(_, secret)| secret)
    }

    /// Identifies the user of the session. Refuses requests from a page of another origin, and changes that the page's own script did not
    /// send. Blocks.
    pub(crate) fn identify(&self, method: &str, app: &App) -> Result<Identified, ApiError> {
        let secret = self.secret(app).ok_or_else(ended)?;
        self.check_sender(method)?;
        find(secret, app).map(Identified::from)
    }

    fn check_sender(&self, method: &str) -> Result<(), ApiError> {
        if self.from_elsewhere {
            return Err(ApiError::forbidden(
                FailureCode::NotFromPage,
                "a session is valid only for requests from this node's page; open the page at the node itself",
            ));
        }
        if !matches!(method, "GET" | "HEAD") && !self.from_page {
            return Err(ApiError::forbidden(
                FailureCode::NotFromPage,
                "changes with a session need the header X-Godwit-Page, which this node's page sends",
            ));
        }
        Ok(())
    }

    /// Ends the session. Blocks.
    pub(crate) fn end(&self, request: &Request, app: &App) -> Result<(), ApiError> {
        let Some(secret) = self.secret(app) else {
            return Ok(());
        };
        self.check_sender("DELETE")?;
        let Ok(Standing { token, user, .. }) = find(secret, app) else {
            return Ok(());
        };
        app.propose(request.actor_of(&user), Op::Token(Change::Remove(token.id)))
    }
}

/// Whether a page of another origin made the browser send the request. Another origin of the same site counts too, such as another port of
/// this host, to which the browser sends the cookie. Browsers say where a request comes from, and no page can change that.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    sites.any(|site| site != "same-origin" && site != "none")
}

fn ended() -> ApiError {
    ApiError::unauthenticated(
        FailureCode::SessionEnded,
        "the session has ended; sign in again",
    )
}

/// The session of this secret, if it and all its parents are valid. Blocks.
fn find(secret: &str, app: &App) -> Result<Standing, ApiError> {
    standing::of_secret(secret, Shown::Cookie, now(), app)?.map_err(|_unfit| ended())
}

/// Begins a session for a user proven by a password or a token, and returns its secret. Blocks.
pub(crate) fn begin(
    app: &App,
    request: &Request,
    user: &User,
    from: Option<&Standing>,
) -> Result<(Token, String), ApiError> {
    let at = now();
    let _turn = app.jobs.turn("sessions", &user.name);
    let parent = from.map(|from| from.token.id.clone());
    let origin = TokenOrigin::Session { parent };
    let mut open: Vec<Token> = app.reader().objects::<Token>()?;
    // A program's token ends no session that came from the password or from another token.
    open.retain(|token| {
        token.user == user.name
            && TokenOrigin::of_scope(&token.scope).as_ref() == Some(&origin)
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
        role: user.role,
        expires: Some(at.after(WORKING_DAY_MS)),
        comment: "session of the page".to_owned(),
        origin,
        parent: from,
        proven: from.is_none().then_some(user),
    };
    credentials::make(app, actor, wish)
}

/// The header that gives a browser the session.
pub(crate) fn set_cookie(app: &App, secret: &str, expires: Option<Timestamp>) -> String {
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
