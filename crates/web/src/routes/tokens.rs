//! Owns the routes of tokens, and the log-in that makes one from a password.
//! Does not check the tokens of requests: `caller` does.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{Login, NewToken, TokenCreated, TokenKind, TokenView};
use godwit_jobs::now;
use godwit_state::{
    Agreed, Change, LEVEL_INVITES, Op, ProposeError, Role, Token, TokenOrigin, User,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{self, Caller, Operator, Owner, Request, role, role_name};
use crate::credentials::{self, Wish};
use crate::extract::{Body, Path, Small};
use crate::problem::ApiError;
use crate::standing::{Known, Standing, judge};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
        .routes(routes!(login))
}

/// Lists the caller's tokens. For an admin, lists all tokens.
#[utoipa::path(get, path = "/tokens", tag = "tokens", responses((status = 200, body = Vec<TokenView>), Problems))]
async fn list(
    Owner(caller): Owner,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<TokenView>>, ApiError> {
    app.run(move |app| views(app, |token| caller.owns(&token.user)))
        .await
        .map(Json)
}

/// Makes a token. Only this answer contains its secret.
///
/// A token ends with the token or session that made it; only a token of the caller itself does not, if the request has the password.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = NewToken, responses((status = 201, body = TokenCreated), Problems))]
async fn create(
    Operator(caller): Operator,
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(mut new): Body<NewToken>,
) -> Result<(StatusCode, Json<TokenCreated>), ApiError> {
    let user = new.user.unwrap_or_else(|| caller.name.clone());
    if !caller.owns(&user) {
        return Err(ApiError::forbidden(
            FailureCode::NotYourToken,
            format!("user: only an admin can make tokens for {user}"),
        ));
    }
    let most = role(new.role);
    if most > caller.role {
        return Err(ApiError::forbidden(
            FailureCode::RoleTooSmall,
            format!(
                "role: {} is {} here, and cannot make a token with a higher role",
                caller.name,
                caller.role.name()
            ),
        ));
    }
    let expires = new.expires;
    if expires.is_some_and(|expires| expires <= now()) {
        return Err(ApiError::invalid("expires: this time has passed"));
    }
    let proven = match new.password.take() {
        Some(password) => {
            let request = Request::of(&parts);
            Some(credentials::prove(&app, &request, &caller.name, password).await?)
        }
        None => None,
    };
    let made = app
        .run(move |app| {
            let local =
                caller.name == user && caller.role == Role::Admin && caller.standing.is_none();
            if local && app.reader().object::<User>(&user)?.is_none() {
                // The node's own user has a role without a user in the state; a token needs such a user.
                let own = User {
                    name: user.clone(),
                    role: Role::Admin,
                    password: None,
                    disabled: false,
                };
                app.propose(caller.actor(), Op::User(Change::Create(own)))?;
            }
            if let Some(user) = app.reader().object::<User>(&user)? {
                caller::names(app)?
                    .check_made_by(&user, &caller.name)
                    .map_err(ProposeError::Refused)?;
            }
            let (origin, parent) = origin(app, &caller, &user, proven.is_some())?;
            let wish = Wish {
                user: &user,
                role: most,
                expires,
                comment: new.comment,
                origin,
                parent,
                proven: proven.as_ref(),
            };
            credentials::make(app, caller.actor(), wish)
        })
        .await?;
    Ok((StatusCode::CREATED, Json(created(made))))
}

/// The origin of a new token, and the token with which it ends. After a sign-in by password, a new token of the same user does
/// not end with another token. A token for another user ends with its maker: the user, or the token of the request. A cluster
/// of an
/// older level cannot record a user as maker, and refuses a token that would end with a user only.
fn origin<'a>(
    app: &App,
    caller: &'a Caller,
    user: &str,
    is_proven: bool,
) -> Result<(TokenOrigin, Option<&'a Standing>), ApiError> {
    let reader = app.reader();
    let is_own = caller.name == user;
    let names_maker = || -> Result<bool, ApiError> {
        // An account of a machine needs no user.
        let is_user = !caller::names(app)?.is_account(&caller.name)
            && reader.object::<User>(&caller.name)?.is_some();
        let is_by_user_alone = caller.standing.is_none();
        Ok(is_user && (is_by_user_alone || Agreed(&reader).level()? >= LEVEL_INVITES))
    };
    let is_free = is_proven || caller.standing.is_none();
    if is_free && !is_own && names_maker()? {
        let maker = caller.name.clone();
        return Ok((TokenOrigin::By { maker }, None));
    }
    let standing = caller.standing.as_ref();
    let parent = standing.filter(|_| !(is_proven && is_own));
    let id = parent.map(|parent| parent.token.id.clone());
    Ok((TokenOrigin::Made { parent: id }, parent))
}

/// Revokes a token. Requests with it, or with a token that came from it, are refused from then on.
///
/// A token with a smaller role than its user revokes only itself.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)), responses((status = 204), Problems))]
async fn revoke(
    Owner(caller): Owner,
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        let token = app.reader().object::<Token>(&id)?;
        // A caller does not learn whether the token of another user exists.
        let token = token.filter(|token| caller.owns(&token.user));
        if token.is_none() {
            return Err(ApiError::not_found(format!(
                "there is no token {id:?} of yours; list the tokens with: godwit token list"
            )));
        }
        if let Some(standing) = &caller.standing {
            standing.check_revoke(Some(&id))?;
        }
        app.propose(caller.actor(), Op::Token(Change::Remove(id)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a token for one working day from a user's password.
#[utoipa::path(post, path = "/login", tag = "tokens", request_body = Login, security(()), responses((status = 200, body = TokenCreated), Problems))]
async fn login(
    State(app): State<Arc<App>>,
    parts: Parts,
    Small(login): Small<Login>,
) -> Result<Json<TokenCreated>, ApiError> {
    let request = Request::of(&parts);
    let user = credentials::check(&app, &request, login).await?;
    app.changes.take_sign_in(&user.name, Instant::now())?;
    let made = app.run(move |app| {
        let wish = Wish {
            user: &user.name,
            role: user.role,
            expires: Some(now().after(credentials::WORKING_DAY_MS)),
            comment: "log-in".to_owned(),
            origin: TokenOrigin::LogIn,
            parent: None,
            proven: Some(&user),
        };
        credentials::make(app, request.actor_of(&user), wish)
    });
    made.await.map(|made| Json(created(made)))
}

fn created((token, secret): (Token, String)) -> TokenCreated {
    TokenCreated {
        token: view(token, true),
        secret,
    }
}

/// The selected tokens, and whether each is valid now. Blocks.
pub(super) fn views(
    app: &App,
    is_wanted: impl Fn(&Token) -> bool,
) -> Result<Vec<TokenView>, ApiError> {
    let known = Known::read(&app.reader())?;
    let at = now();
    let wanted = known.tokens().filter(|token| is_wanted(token));
    let views = wanted.map(|token| {
        let usable = judge(token.clone(), at, &known)?.is_ok();
        Ok(view(token.clone(), usable))
    });
    views.collect()
}

fn view(token: Token, usable: bool) -> TokenView {
    let origin = TokenOrigin::of_scope(&token.scope);
    TokenView {
        kind: match origin {
            Some(TokenOrigin::Session { .. }) => TokenKind::Session,
            Some(TokenOrigin::LogIn) => TokenKind::LogIn,
            Some(TokenOrigin::Made { .. } | TokenOrigin::By { .. }) | None => TokenKind::Token,
        },
        parent: origin.and_then(|origin| origin.parent().map(ToOwned::to_owned)),
        usable,
        id: token.id,
        user: token.user,
        role: role_name(token.role),
        created: token.created,
        expires: token.expires,
        revoked: token.revoked,
        last_digits: token.last_digits,
        comment: token.comment,
    }
}
