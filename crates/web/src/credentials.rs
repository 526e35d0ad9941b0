//! Owns how a name and a password prove a user, and how tokens are made.
//! Does not check the tokens of requests: `caller` does.

use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use godwit_api::failure::FailureCode;
use godwit_api::rest::Login;
use godwit_jobs::now;
use godwit_state::{
    Actor, Agreed, Change, Command, CommandError, LEVEL_PROVEN, LEVEL_REVOKE, Node, Op,
    ProposeError, ProvenToken, Prune, RevokeTokens, Role, Secret, Timestamp, Token, TokenOrigin,
    User, sortable_id,
};

use crate::app::App;
use crate::caller::{self, Request};
use crate::logins::Try;
use crate::problem::ApiError;
use crate::standing::{self, Standing};
use crate::{password, secret};

/// How long a log-in or a session lasts, in milliseconds: 12 hours.
pub(crate) const WORKING_DAY_MS: u64 = 12 * 3_600 * 1_000;

/// Tokens of one user. The state has room for a hundred users with this many.
const OF_USER_MAX: usize = 100;

/// Tokens of one user that were made, or came from another token. The rest is reserved for password sign-ins, so that a stolen token cannot
/// lock its user out.
const OF_TOKENS_MAX: usize = 80;

/// The longest name of a user.
const NAME_BYTES_MAX: usize = 255;

/// Log text for a name that no user has.
const UNKNOWN_USER: &str = "an unknown user";

/// Finds the user whom the password proves. Guesses are throttled.
pub(crate) async fn check(
    app: &Arc<App>,
    request: &Request,
    login: Login,
) -> Result<User, ApiError> {
    // Before anything is kept of it.
    if login.user.len() > NAME_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "user: at most {NAME_BYTES_MAX} bytes"
        )));
    }
    let tried = Try {
        user: &login.user,
        from: &request.key(),
        browser: request.browser.as_deref(),
    };
    let attempt = app.logins.begin(&tried, Instant::now()).map_err(|wait| {
        ApiError::later(
            StatusCode::TOO_MANY_REQUESTS,
            FailureCode::TooManyLogins,
            "too many log-ins failed; try again later",
            wait.as_secs() + 1,
        )
    })?;
    let name = login.user.clone();
    let (is_there, user) = app
        .run(move |app| {
            app.logins
                .share_among(app.reader().objects::<Node>()?.len());
            let user = app.reader().object::<User>(&name)?;
            let is_there = user.is_some();
            Ok((
                is_there,
                user.filter(|user| caller::known(user, app).is_ok()),
            ))
        })
        .await?;
    let hash = user.as_ref().and_then(|user| user.password.clone());
    let verify = move || password::verify(&login.password, hash.as_ref());
    let right = match attempt.is_of_stranger() {
        true => app.hash_of_stranger(verify).await?,
        false => app.hash(verify).await?,
    };
    let Some(user) = user.filter(|_| right) else {
        let stranger = request.stranger();
        // People type their password as the name, so an unknown name is written nowhere.
        let name = match is_there {
            true => login.user,
            false => UNKNOWN_USER.to_owned(),
        };
        return app
            .run(move |app| {
                app.refused(stranger, "login", &name, FailureCode::WrongPassword);
                Err(ApiError::unauthenticated(
                    FailureCode::WrongPassword,
                    "the user or the password is wrong",
                ))
            })
            .await;
    };
    app.logins.succeeded(&attempt, Instant::now());
    request.proves(&user.name);
    Ok(user)
}

/// Checks the password of a signed-in user once more. A wrong password is refused and does not end the session.
pub(crate) async fn prove(
    app: &Arc<App>,
    request: &Request,
    user: &str,
    password: String,
) -> Result<User, ApiError> {
    let login = Login {
        user: user.to_owned(),
        password,
    };
    let checked = check(app, request, login).await;
    checked.map_err(|error| match error.code().known() {
        Some(code @ FailureCode::WrongPassword) => {
            ApiError::forbidden(code, "the password is wrong")
        }
        _ => error,
    })
}

/// Revokes several tokens of a user. This node may lag, so the state selects them. Blocks.
pub(crate) fn revoke(app: &App, actor: &Actor, which: RevokeTokens) -> Result<(), ApiError> {
    let reader = app.reader();
    if Agreed(&reader).level()? >= LEVEL_REVOKE {
        return app.propose(actor.clone(), Op::Revoke(Box::new(which)));
    }
    let tokens = reader.objects::<Token>()?.into_iter();
    for token in tokens.filter(|token| which.ends(token)) {
        app.propose(actor.clone(), Op::Token(Change::Remove(token.id)))?;
    }
    Ok(())
}

/// Whether the token came from a password alone.
fn is_by_password(origin: &TokenOrigin) -> bool {
    origin.is_sign_in() && origin.parent().is_none()
}

/// Description of the token to make.
pub(crate) struct Wish<'a> {
    pub(crate) user: &'a str,
    /// Highest role of the token.
    pub(crate) role: Role,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) comment: String,
    pub(crate) origin: TokenOrigin,
    /// Parent that the origin names. The token allows no more and lasts no longer than this parent.
    pub(crate) parent: Option<&'a Standing>,
    /// The user whose password was checked for this token.
    pub(crate) proven: Option<&'a User>,
}

/// Makes a token, puts it into the state, and returns it with its secret. Blocks.
pub(crate) fn make(app: &App, actor: Actor, wish: Wish<'_>) -> Result<(Token, String), ApiError> {
    let at = now();
    let user = wish.user;
    if wish.parent.is_some_and(|parent| !parent.has_room()) {
        return Err(ApiError::forbidden(
            FailureCode::TooDerived,
            "the token of this request is the last of too long a chain of tokens; make the new token with an earlier one of the chain",
        ));
    }
    let (role, expires) = match wish.parent {
        Some(parent) => (
            wish.role.min(parent.role),
            standing::earlier(wish.expires, parent.expires),
        ),
        None => (wish.role, wish.expires),
    };
    let _turn = app.jobs.turn("tokens", user);
    let tokens = app.reader().objects::<Token>()?;
    let own = tokens.iter().filter(|token| token.user == user);
    let is_over = |token: &&Token| {
        token.revoked.is_some() || token.expires.is_some_and(|expires| expires <= at)
    };
    let (over, good): (Vec<&Token>, Vec<&Token>) = own.partition(is_over);
    let is_of_tokens = |token: &&&Token| {
        let origin = TokenOrigin::of_scope(&token.scope);
        !origin.as_ref().is_some_and(is_by_password)
    };
    let of_tokens = good.iter().filter(is_of_tokens).count();
    let is_full = of_tokens >= OF_TOKENS_MAX && !is_by_password(&wish.origin);
    if good.len() >= OF_USER_MAX || is_full {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            FailureCode::TooMany,
            format!(
                "{user} has {} tokens and sessions; revoke some first: godwit token list, godwit token revoke",
                good.len()
            ),
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
        scope: wish.origin.to_string(),
        role,
        created: at,
        expires,
        revoked: None,
        last_digits: secret::last_signs(&secret),
        comment: wish.comment,
    };
    let proof = wish.proven.and_then(|proven| proven.password.as_ref());
    let op = command_to_create(&token, proof, Agreed(&app.reader()).level()?);
    let is_judged = matches!(op, Op::ProvenToken(_));
    let command = Command::new(now(), actor.clone(), op);
    match app.jobs.replica().propose_blocking(command) {
        Ok(_) => {}
        Err(ProposeError::Refused(CommandError::Invalid { field, .. }))
            if is_judged && field == "password" =>
        {
            return Err(changed_meanwhile());
        }
        Err(error) => return Err(error.into()),
    }
    let is_late = match wish.proven {
        Some(proven) if !is_judged => is_outdated(app, proven)?,
        _ => false,
    };
    if is_late {
        // The token of a user who is gone or disabled opens nothing, and cannot be revoked by that user.
        let _ = app.propose(actor, Op::Token(Change::Remove(token.id)));
        return Err(changed_meanwhile());
    }
    Ok((token, secret))
}

/// The command that makes a token. A check takes long enough for the password to change meanwhile, and this node may lag: the state compares
/// the password that was checked.
fn command_to_create(token: &Token, proof: Option<&Secret>, level: u32) -> Op {
    match proof {
        Some(password) if level >= LEVEL_PROVEN => Op::ProvenToken(Box::new(ProvenToken {
            token: token.clone(),
            password: password.clone(),
        })),
        _ => Op::Token(Change::Create(token.clone())),
    }
}

/// Whether the password has changed since its check, as far as this node knows. That change revoked all sign-ins before it, but not the
/// one that was just made.
fn is_outdated(app: &App, proven: &User) -> Result<bool, ApiError> {
    let now = app.reader().object::<User>(&proven.name)?;
    let same = |now: &User| now.password == proven.password && !now.disabled;
    Ok(!now.as_ref().is_some_and(same))
}

fn changed_meanwhile() -> ApiError {
    ApiError::unauthenticated(
        FailureCode::WrongPassword,
        "the password was changed at this moment; sign in again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_made_with_a_password_names_it_where_all_nodes_know_the_command() {
        let token = Token {
            id: "t".to_owned(),
            user: "ada".to_owned(),
            hash: Secret::new("digest"),
            scope: TokenOrigin::LogIn.to_string(),
            role: Role::Viewer,
            created: Timestamp(0),
            expires: None,
            revoked: None,
            last_digits: String::new(),
            comment: String::new(),
        };
        let plain = Op::Token(Change::Create(token.clone()));
        let proof = Secret::new("hash");
        assert_eq!(command_to_create(&token, None, LEVEL_PROVEN), plain);
        assert_eq!(
            command_to_create(&token, Some(&proof), LEVEL_PROVEN - 1),
            plain
        );
        let proven = Op::ProvenToken(Box::new(ProvenToken {
            token: token.clone(),
            password: proof.clone(),
        }));
        assert_eq!(
            command_to_create(&token, Some(&proof), LEVEL_PROVEN),
            proven
        );
    }
}
