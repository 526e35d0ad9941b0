//! Owns the routes of tokens, and the log-in that makes one of a password.
//! Does not check the tokens of requests: `caller` does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use godwit_api::rest::{Login, NewToken, Timestamp, TokenCreated, TokenView};
use godwit_jobs::now;
use godwit_state::{Actor, Change, Op, Prune, Role, Secret, Token, UnixMillis, User, sortable_id};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{Operator, Request, role, role_name};
use crate::extract::Body;
use crate::problem::ApiError;
use crate::{password, secret};

/// How long the token of a log-in is good: a working day.
const LOGIN_FOR: Duration = Duration::from_secs(12 * 3_600);

/// Tokens of a user: the state has room for a hundred users with as many.
const OF_USER_MAX: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
        .routes(routes!(login))
}

/// Lists the caller's tokens, or all of them for an admin.
#[utoipa::path(get, path = "/tokens", tag = "tokens", responses((status = 200, body = Vec<TokenView>), Problems))]
async fn list(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<TokenView>>, ApiError> {
    let tokens = app.run(|app| Ok(app.reader().objects::<Token>()?)).await?;
    let own = tokens.into_iter().filter(|token| caller.owns(&token.user));
    Ok(Json(own.map(view).collect()))
}

/// Makes a token. Its secret is in this answer only.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = NewToken, responses((status = 201, body = TokenCreated), Problems))]
async fn create(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Body(new): Body<NewToken>,
) -> Result<(StatusCode, Json<TokenCreated>), ApiError> {
    let user = new.user.unwrap_or_else(|| caller.name.clone());
    if !caller.owns(&user) {
        return Err(ApiError::forbidden(
            "not_your_token",
            format!("user: only an admin makes tokens for {user}"),
        ));
    }
    let most = role(new.role);
    if most > caller.role {
        return Err(ApiError::forbidden(
            "role_too_small",
            format!(
                "role: {} is {} here, and makes no token that allows more",
                caller.name,
                caller.role.name()
            ),
        ));
    }
    let expires = new.expires.map(|time| UnixMillis(time.0));
    if expires.is_some_and(|expires| expires <= now()) {
        return Err(ApiError::invalid("expires: this time has passed"));
    }
    let created = app
        .run(move |app| {
            let local = caller.name == user && caller.role == Role::Admin;
            if local && app.reader().object::<User>(&user)?.is_none() {
                // The node's own user has a role without being in the state; a token needs a user there.
                let own = User {
                    name: user.clone(),
                    role: Role::Admin,
                    password: None,
                    disabled: false,
                };
                app.propose(caller.actor(), Op::User(Change::Create(own)))?;
            }
            make(app, caller.actor(), &user, most, expires, new.comment)
        })
        .await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// Revokes a token; requests with it are refused from then on.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn revoke(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        let token = app.reader().object::<Token>(&id)?;
        // Of somebody else's token nobody learns that there is one.
        let token = token.filter(|token| caller.owns(&token.user));
        if token.is_none() {
            return Err(ApiError::not_found(format!(
                "there is no token {id:?} of yours; list the tokens with: godwit token list"
            )));
        }
        app.propose(caller.actor(), Op::Token(Change::Remove(id)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a token for a working day of a user's password.
#[utoipa::path(post, path = "/login", tag = "tokens", request_body = Login, security(()), responses((status = 200, body = TokenCreated), Problems))]
async fn login(
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(login): Body<Login>,
) -> Result<Json<TokenCreated>, ApiError> {
    let request = Request::of(&parts);
    let keys = [
        format!("user {}", login.user),
        format!("from {}", request.stranger().remote.unwrap_or_default()),
    ];
    for key in &keys {
        if let Err(wait) = app.logins.take(key, Instant::now()) {
            return Err(ApiError::later(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_logins",
                "too many log-ins failed; try again later",
                wait.as_secs() + 1,
            ));
        }
    }
    let name = login.user.clone();
    let user = app
        .run(move |app| Ok(app.reader().object::<User>(&name)?))
        .await?;
    let user = user.filter(|user| !user.disabled);
    let hash = user.as_ref().and_then(|user| user.password.clone());
    let right = app
        .hash(move || password::verify(&login.password, hash.as_ref()))
        .await?;
    let name = login.user;
    let Some(user) = user.filter(|_| right) else {
        return app
            .run(move |app| {
                app.refused(request.stranger(), "login", &clip(name), "wrong_password");
                Err(ApiError::unauthenticated(
                    "wrong_password",
                    "the user or the password is wrong",
                ))
            })
            .await;
    };
    for key in &keys {
        app.logins.clear(key);
    }
    let hours = u64::try_from(LOGIN_FOR.as_millis()).unwrap_or(u64::MAX);
    let expires = Some(now().after(hours));
    app.run(move |app| {
        let actor = Actor {
            name: user.name.clone(),
            role: Some(user.role),
            ..request.stranger()
        };
        make(
            app,
            actor,
            &user.name,
            user.role,
            expires,
            "log-in".to_owned(),
        )
    })
    .await
    .map(Json)
}

/// The longest name in a line of the audit log.
const NAME_BYTES_MAX: usize = 255;

fn clip(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

/// Makes a token and puts it into the state. Blocks.
fn make(
    app: &App,
    actor: Actor,
    user: &str,
    most: Role,
    expires: Option<UnixMillis>,
    comment: String,
) -> Result<TokenCreated, ApiError> {
    let at = now();
    let tokens = app.reader().objects::<Token>()?;
    let own = tokens.iter().filter(|token| token.user == user);
    let is_over = |token: &&Token| {
        token.revoked.is_some() || token.expires.is_some_and(|expires| expires <= at)
    };
    let (over, good): (Vec<&Token>, Vec<&Token>) = own.partition(is_over);
    if good.len() >= OF_USER_MAX {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "too_many",
            format!("{user} has {OF_USER_MAX} tokens; revoke some first"),
        ));
    }
    if over.len() >= OF_USER_MAX {
        let prune = Prune {
            tokens_before: Some(at),
            ..Prune::default()
        };
        app.propose(Actor::node("api"), Op::Prune(prune))?;
    }
    let no_random = |error| ApiError::internal(format!("no random numbers: {error}"));
    let secret = secret::make().map_err(no_random)?;
    let token = Token {
        id: sortable_id(at, getrandom::u32().map_err(no_random)?),
        user: user.to_owned(),
        hash: Secret::new(secret::digest(&secret)),
        scope: String::new(),
        role: most,
        created: at,
        expires,
        revoked: None,
        last_digits: secret::last_signs(&secret),
        comment,
    };
    app.propose(actor, Op::Token(Change::Create(token.clone())))?;
    Ok(TokenCreated {
        token: view(token),
        secret,
    })
}

fn view(token: Token) -> TokenView {
    let time = |time: UnixMillis| Timestamp(time.0);
    TokenView {
        id: token.id,
        user: token.user,
        role: role_name(token.role),
        created: time(token.created),
        expires: token.expires.map(time),
        revoked: token.revoked.map(time),
        last_digits: token.last_digits,
        comment: token.comment,
    }
}
