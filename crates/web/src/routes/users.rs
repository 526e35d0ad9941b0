//! Owns the routes of users.
//! Signs no user in: `login` does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use godwit_api::failure::FailureCode;
use godwit_api::rest::{NewUser, UserView};
use godwit_state::{
    Agreed, Change, Flow, JobFilter, LEVEL_KEPT_PASSWORD, Op, ProposeError, RevokeTokens, Schedule,
    User,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Problems;
use crate::app::App;
use crate::caller::{self, Admin, role, role_name};
use crate::extract::{Body, Path};
use crate::problem::ApiError;
use crate::{credentials, password};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, put, remove))
}

/// Lists the users.
#[utoipa::path(get, path = "/users", tag = "users", responses((status = 200, body = Vec<UserView>), Problems))]
async fn list(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<UserView>>, ApiError> {
    let users = app.run(|app| Ok(app.reader().objects::<User>()?)).await?;
    Ok(Json(users.into_iter().map(view).collect()))
}

/// Shows a user.
#[utoipa::path(get, path = "/users/{name}", tag = "users", params(("name" = String, Path)), responses((status = 200, body = UserView), Problems))]
async fn show(
    Admin(_caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<UserView>, ApiError> {
    app.run(move |app| find(app, &name).map(view))
        .await
        .map(Json)
}

/// Adds or replaces a user. Without a password, the user keeps the old one. A new password ends the sessions of the user.
#[utoipa::path(put, path = "/users/{name}", tag = "users", params(("name" = String, Path)), request_body = NewUser, responses((status = 200, body = UserView), Problems))]
async fn put(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Body(new): Body<NewUser>,
) -> Result<Json<UserView>, ApiError> {
    let hash = match new.password {
        Some(password) => Some(app.hash(move || password::hash(&password)).await??),
        None => None,
    };
    app.run(move |app| {
        let earlier = app.reader().object::<User>(&name)?;
        if earlier.is_none() {
            check_fresh(app, &name)?;
        }
        let user = User {
            name: name.clone(),
            role: role(new.role),
            password: hash.clone().or_else(|| earlier.as_ref()?.password.clone()),
            disabled: new.disabled,
        };
        caller::names(app)?
            .check_user(&user, earlier.as_ref(), &caller.name)
            .map_err(ProposeError::Refused)?;
        // The state keeps the password: the user may have changed it since the row was read.
        let user = match Agreed(&app.reader()).level()? >= LEVEL_KEPT_PASSWORD {
            true => User {
                password: hash,
                ..user
            },
            false => user,
        };
        app.propose(caller.actor(), Op::User(Change::Put(user)))?;
        // After the password: whoever knows the old one makes no token from then on.
        if new.revoke_tokens {
            let all = RevokeTokens {
                user: name.clone(),
                made: true,
                keep: Vec::new(),
            };
            credentials::revoke(app, &caller.actor(), all)?;
        }
        find(app, &name).map(view)
    })
    .await
    .map(Json)
}

/// Removes a user, with the tokens and the unfinished jobs of the user.
#[utoipa::path(delete, path = "/users/{name}", tag = "users", params(("name" = String, Path)), responses((status = 204), Problems))]
async fn remove(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run(move |app| app.propose(caller.actor(), Op::User(Change::Remove(name))))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a name under which another user had schedules, flows or jobs: the new user would get them, with their reports and logs. The
/// state checks again; this message says what to do.
fn check_fresh(app: &App, name: &str) -> Result<(), ApiError> {
    let of_name = JobFilter {
        owner: Some(name.to_owned()),
        ..JobFilter::default()
    };
    let taken = |detail| {
        Err(ApiError::new(
            StatusCode::CONFLICT,
            FailureCode::NameTaken,
            detail,
        ))
    };
    let schedules = app.reader().objects::<Schedule>()?;
    if let Some(left) = schedules.iter().find(|one| one.owner == name) {
        return taken(format!(
            "the schedule {:?} of an earlier user {name:?} is still here, and would belong to the new one; remove the schedules of that \
             user, or choose another name",
            left.id
        ));
    }
    let flows = app.reader().objects::<Flow>()?;
    if let Some(left) = flows.iter().find(|one| one.owner == name) {
        return taken(format!(
            "the flow {:?} of an earlier user {name:?} is still here, and would belong to the new one; remove the flows of that user, or \
             choose another name",
            left.id
        ));
    }
    if app.reader().jobs(&of_name, None, 1)?.jobs.is_empty() {
        return Ok(());
    }
    taken(format!(
        "jobs of an earlier user {name:?} are in the history, and would belong to the new one; choose another name, or wait until \
             keep-history has removed them. To lock a user out for a time, disable it instead of removing it"
    ))
}

fn find(app: &App, name: &str) -> Result<User, ApiError> {
    app.reader().object::<User>(name)?.ok_or_else(|| {
        ApiError::not_found(format!(
            "this node has no user {name:?}; list the users with: godwit user list"
        ))
    })
}

fn view(user: User) -> UserView {
    UserView {
        name: user.name,
        role: role_name(user.role),
        has_password: user.password.is_some(),
        disabled: user.disabled,
    }
}
