//! Owns the routes for signing in to the page, signing out, and the signed-in user.
//! Keeps no session: the state does.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use godwit_api::rest::{Login, NewSession, SessionView};
use godwit_state::User;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{self, Identified, Request, role_name};
use crate::extract::Small;
use crate::problem::ApiError;
use crate::standing::Standing;
use crate::{browser, credentials, session};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(show, sign_in, sign_out))
}

/// Shows the signed-in user.
#[utoipa::path(get, path = "/session", tag = "session", security(()), responses((status = 200, body = SessionView), Problems))]
async fn show(State(app): State<Arc<App>>, parts: Parts) -> Result<Json<SessionView>, ApiError> {
    let request = Request::of(&parts);
    app.run(move |app| {
        let found = match request.identify(app) {
            Ok(found) => Some(found),
            Err(error) if error.status().is_client_error() => None,
            Err(error) => return Err(error),
        };
        view(app, found)
    })
    .await
    .map(Json)
}

/// Begins a session of the page, with a name and a password or with a token. The answer sets a cookie.
#[utoipa::path(post, path = "/session", tag = "session", request_body = NewSession, security(()), responses((status = 200, body = SessionView), Problems))]
async fn sign_in(
    State(app): State<Arc<App>>,
    parts: Parts,
    Small(new): Small<NewSession>,
) -> Result<Response, ApiError> {
    let request = Request::of(&parts);
    let NewSession {
        user,
        password,
        token,
    } = new;
    let (checked, token) = match (user, password, token) {
        (Some(user), Some(password), None) => {
            let login = Login { user, password };
            (Some(credentials::check(&app, &request, login).await?), None)
        }
        (None, None, Some(token)) => (None, Some(token)),
        _ => {
            return Err(ApiError::invalid(
                "give user and password, or a token and nothing else",
            ));
        }
    };
    app.run(move |app| {
        let keeps = match &checked {
            Some(user) => {
                app.changes.take_sign_in(&user.name, Instant::now())?;
                Some(keep_browser(app, &request, user)?)
            }
            None => None,
        };
        let (from, user) = match (checked, token) {
            (Some(user), _) => (None, user),
            (None, token) => {
                let from = by_token(app, &request, &token.unwrap_or_default())?;
                app.changes.take_sign_in_by(&from, Instant::now())?;
                let user = from.user.clone();
                (Some(from), user)
            }
        };
        let (made, secret) = session::begin(app, &request, &user, from.as_ref())?;
        let found = Identified {
            name: user.name,
            role: made.role,
            expires: made.expires,
            standing: None,
        };
        let cookie = session::set_cookie(app, &secret, made.expires);
        let view = view(app, Some(found))?;
        let response = with_cookie(Json(view).into_response(), &cookie);
        Ok(match keeps {
            Some(keeps) => with_cookie(response, &keeps),
            None => response,
        })
    })
    .await
}

/// Marks the browser as known after a sign-in by password. Returns the cookie that identifies the browser.
fn keep_browser(app: &App, request: &Request, user: &User) -> Result<String, ApiError> {
    let secret = match &request.browser {
        Some(secret) => secret.clone(),
        None => browser::make()
            .map_err(|error| ApiError::internal(format!("no random numbers: {error}")))?,
    };
    app.logins.know_browser(&user.name, &secret, Instant::now());
    Ok(browser::set_cookie(&secret))
}

/// Ends the session.
#[utoipa::path(delete, path = "/session", tag = "session", security(()), responses((status = 204), Problems))]
async fn sign_out(State(app): State<Arc<App>>, parts: Parts) -> Result<Response, ApiError> {
    let request = Request::of(&parts);
    app.run(move |app| {
        if let Some(cookie) = request.session() {
            cookie.end(&request, app)?;
        }
        let cookie = session::clear_cookie(app);
        Ok(with_cookie(StatusCode::NO_CONTENT.into_response(), &cookie))
    })
    .await
}

/// The token of this secret. A secret has 256 random bits, so it cannot be guessed. Blocks.
fn by_token(app: &App, request: &Request, secret: &str) -> Result<Standing, ApiError> {
    caller::bearer(secret, app).inspect_err(|error| {
        app.refused(
            request.stranger(),
            "login",
            "by token",
            error.code().clone(),
        );
    })
}

pub(super) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, value);
    }
    response
}

/// Describes the session. Blocks.
fn view(app: &App, found: Option<Identified>) -> Result<SessionView, ApiError> {
    let users = app.reader().objects::<User>()?;
    let can_sign_in = |user: &User| user.password.is_some() && !user.disabled;
    let (user, role, expires) = match found {
        Some(found) => (Some(found.name), Some(found.role), found.expires),
        None => (None, None, None),
    };
    Ok(SessionView {
        user,
        role: role.map(role_name),
        expires,
        users: users.iter().any(can_sign_in),
    })
}
