//! Owns the routes of the caller's own account: password, sessions and tokens, for every signed-in user.
//! Does nothing to other users: `users` and `tokens` do.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{AccountView, NewPassword};
use godwit_state::{Op, RevokeTokens, User};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::cluster::yes_or_no;
use super::{Problems, tokens};
use crate::app::App;
use crate::caller::{Caller, Owner, Request, Viewer, role_name};
use crate::extract::{Body, Parameters};
use crate::problem::ApiError;
use crate::{credentials, password};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(change_password))
        .routes(routes!(end_others))
}

/// Shows the account of the caller, with its valid sessions, log-ins and tokens.
#[utoipa::path(get, path = "/account", tag = "account", responses((status = 200, body = AccountView), Problems))]
async fn show(
    Viewer(caller): Viewer,
    State(app): State<Arc<App>>,
) -> Result<Json<AccountView>, ApiError> {
    app.run(move |app| {
        let user = app.reader().object::<User>(&caller.name)?;
        let own = tokens::views(app, |token| token.user == caller.name)?;
        Ok(AccountView {
            role: role_name(caller.role),
            may_change: caller.may_change_account(),
            has_password: user.is_some_and(|user| user.password.is_some()),
            current: caller.standing.map(|standing| standing.token.id),
            tokens: own.into_iter().filter(|token| token.usable).collect(),
            user: caller.name,
        })
    })
    .await
    .map(Json)
}

/// Changes the caller's password. All other sessions and log-ins of the user end.
#[utoipa::path(put, path = "/account/password", tag = "account", request_body = NewPassword, responses((status = 204), Problems))]
async fn change_password(
    Owner(caller): Owner,
    State(app): State<Arc<App>>,
    parts: Parts,
    Body(change): Body<NewPassword>,
) -> Result<StatusCode, ApiError> {
    let NewPassword { current, new } = change;
    let name = caller.name.clone();
    let user = app
        .run(move |app| Ok(app.reader().object::<User>(&name)?))
        .await?;
    if user.is_none_or(|user| user.password.is_none()) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            FailureCode::NoPassword,
            format!(
                "{0} has no password; an admin sets the first one with: godwit user add {0} --password-file FILE",
                caller.name
            ),
        ));
    }
    let user = credentials::prove(&app, &Request::of(&parts), &caller.name, current).await?;
    let hash = app.hash(move || password::hash(&new)).await??;
    app.run(move |app| {
        let Some(earlier) = user.password else {
            return Err(ApiError::internal(
                "the user's password was removed meanwhile",
            ));
        };
        let change = godwit_state::NewPassword {
            user: user.name,
            earlier,
            password: hash,
            keep: chain(&caller),
        };
        app.propose(caller.actor(), Op::Password(Box::new(change)))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which tokens end.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct OthersQuery {
    /// Also ends tokens for programs, not only sessions and log-ins.
    #[serde(default, deserialize_with = "yes_or_no")]
    made: bool,
}

/// Ends all sessions and log-ins of the caller, except that of the request and its parents.
///
/// A token with a smaller role than its user may not.
#[utoipa::path(delete, path = "/account/tokens", tag = "account", params(OthersQuery), responses((status = 204), Problems))]
async fn end_others(
    Owner(caller): Owner,
    State(app): State<Arc<App>>,
    Parameters(query): Parameters<OthersQuery>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| {
        if let Some(standing) = &caller.standing {
            standing.check_revoke(None)?;
        }
        let others = RevokeTokens {
            user: caller.name.clone(),
            made: query.made,
            keep: chain(&caller),
        };
        credentials::revoke(app, &caller.actor(), others)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ids of the token or session that the request shows, and of its parents.
fn chain(caller: &Caller) -> Vec<String> {
    let standing = caller.standing.as_ref();
    standing.map_or_else(Vec::new, |standing| standing.chain.clone())
}
