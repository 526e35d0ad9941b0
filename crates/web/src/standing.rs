//! Decides whether a token or session is valid: the one check of every credential that the state keeps, with all its parents.
//! Reads no request: `caller` and `session` do. Makes no token: `credentials` does.

use std::cmp;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use godwit_api::failure::FailureCode;
use godwit_state::{Fault, Names, Node, Reader, Role, Timestamp, Token, TokenOrigin, User};

use crate::app::App;
use crate::machine::machine_admins;
use crate::problem::ApiError;
use crate::secret;

/// Longest chain from a token to its first parent: a log-in, a token of it, a session, and some more.
const CHAIN_MAX: usize = 8;

/// How a request shows a secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shown {
    /// As a bearer token, or to sign in with. Sessions are refused.
    Bearer,
    /// As the cookie of the page. Only sessions are accepted.
    Cookie,
}

/// A valid token, and the rights that it gives.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) token: Token,
    pub(crate) user: User,
    /// Lowest role among the token, its parents, and their users.
    pub(crate) role: Role,
    /// Earliest end among them.
    pub(crate) expires: Option<Timestamp>,
    /// Ids of the token and its parents.
    pub(crate) chain: Vec<String>,
    /// A person signed in with a password: none of them is a token for programs.
    pub(crate) signed_in: bool,
}

impl Standing {
    /// Whether this token may make another token.
    pub(crate) const fn has_room(&self) -> bool {
        self.chain.len() < CHAIN_MAX
    }

    /// Id of the token from which this one came first.
    pub(crate) fn first(&self) -> &str {
        self.chain.last().unwrap_or(&self.token.id)
    }

    /// Checks that a request with this token may revoke the token `id`, or without an id all other tokens of its user. A token with a
    /// smaller role than its user revokes only itself.
    pub(crate) fn check_revoke(&self, id: Option<&str>) -> Result<(), ApiError> {
        if self.role >= self.user.role || id == Some(&self.token.id) {
            return Ok(());
        }
        Err(ApiError::forbidden(
            FailureCode::RoleTooSmall,
            format!(
                "the token {} has a smaller role than its user {}, and can revoke only itself; use a token with the role of the user",
                self.token.id, self.user.name
            ),
        ))
    }
}

/// Why a token is not valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unfit {
    /// There is no such token, or its origin is unknown.
    Unknown,
    /// A session was shown as a token, or a token as a session.
    Misused,
    /// This token was revoked: the token itself, or one of its parents.
    Revoked(String),
    /// This token has expired: the token itself, or one of its parents.
    Expired(String),
    /// The token that this one came from is gone.
    Orphan(String),
    /// The admin who made this token, or one of its parents, is no longer a user.
    MakerGone { token: String, maker: String },
    /// The user who made this token, or one of its parents, is no longer an admin.
    MakerLowered { token: String, maker: String },
    /// This user is disabled.
    Disabled(String),
    /// The name of this user is reserved: for a node, for an account of a machine, or for no user.
    Reserved(String),
}

impl From<Unfit> for ApiError {
    fn from(unfit: Unfit) -> Self {
        let refused = |code, detail: String| Self::unauthenticated(code, detail);
        match unfit {
            Unfit::Unknown | Unfit::Misused => refused(
                FailureCode::BadToken,
                "the token is not known here; make one on the node's machine with: godwit token create"
                    .to_owned(),
            ),
            Unfit::Revoked(id) => refused(FailureCode::TokenRevoked, format!("the token {id} was revoked")),
            Unfit::Expired(id) => refused(
                FailureCode::TokenExpired,
                format!("the token {id} has expired; make another one"),
            ),
            Unfit::Orphan(id) => refused(
                FailureCode::TokenRevoked,
                format!("the token {id} was made with a token or session that has ended; make a new token"),
            ),
            Unfit::MakerGone { token, maker } => refused(
                FailureCode::TokenRevoked,
                format!("the token {token} has ended, because its maker {maker} was removed; ask an admin for a new token"),
            ),
            Unfit::MakerLowered { token, maker } => refused(
                FailureCode::TokenRevoked,
                format!("the token {token} is not valid, because its maker {maker} is no longer an admin; ask an admin for a new token"),
            ),
            Unfit::Disabled(user) => Self::new(
                StatusCode::FORBIDDEN,
                FailureCode::UserDisabled,
                format!("the user {user} is disabled on this node"),
            ),
            Unfit::Reserved(user) => Self::new(
                StatusCode::FORBIDDEN,
                FailureCode::NameTaken,
                format!("{user:?} is not allowed as a user name here; an admin must make a user with another name"),
            ),
        }
    }
}

/// Access to the tokens and users of the state.
pub(crate) trait Lookup {
    fn token(&self, id: &str) -> Result<Option<Token>, Fault>;
    fn user(&self, name: &str) -> Result<Option<User>, Fault>;
    /// Reserved names, under which no user acts.
    fn names(&self) -> Result<Names, Fault>;
}

impl Lookup for App {
    fn token(&self, id: &str) -> Result<Option<Token>, Fault> {
        self.reader().object(id)
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.reader().object(name)
    }

    fn names(&self) -> Result<Names, Fault> {
        names(&self.reader())
    }
}

/// Reserved names, under which no user acts: names of nodes, and of accounts that are always admins of a machine. Blocks.
pub(crate) fn names(reader: &Reader) -> Result<Names, Fault> {
    let mut names = Names::of(&reader.objects::<Node>()?);
    names.accounts.extend(machine_admins());
    Ok(names)
}

/// All tokens and users at one moment, for lists of tokens.
pub(crate) struct Known {
    tokens: BTreeMap<String, Token>,
    users: BTreeMap<String, User>,
    names: Names,
}

impl Known {
    /// Reads all tokens and users. Blocks.
    pub(crate) fn read(reader: &Reader) -> Result<Self, Fault> {
        let tokens = reader.objects::<Token>()?.into_iter();
        let users = reader.objects::<User>()?.into_iter();
        Ok(Self {
            tokens: tokens.map(|token| (token.id.clone(), token)).collect(),
            users: users.map(|user| (user.name.clone(), user)).collect(),
            names: names(reader)?,
        })
    }

    /// The tokens, by id.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }
}

impl Lookup for Known {
    fn token(&self, id: &str) -> Result<Option<Token>, Fault> {
        Ok(self.tokens.get(id).cloned())
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        Ok(self.users.get(name).cloned())
    }

    fn names(&self) -> Result<Names, Fault> {
        Ok(self.names.clone())
    }
}

/// The token of this secret, if it is valid. Blocks.
pub(crate) fn of_secret(
    secret: &str,
    shown: Shown,
    at: Timestamp,
    app: &App,
) -> Result<Result<Standing, Unfit>, Fault> {
    let hash = secret::digest(secret.trim());
    let token = app.reader().objects_by::<Token>(&hash)?.into_iter().next();
    let Some(token) = token else {
        return Ok(Err(Unfit::Unknown));
    };
    let is_session = matches!(
        TokenOrigin::of_scope(&token.scope),
        Some(TokenOrigin::Session { .. })
    );
    if is_session != (shown == Shown::Cookie) {
        return Ok(Err(Unfit::Misused));
    }
    judge(token, at, app)
}

/// Checks that a token is valid at a time. The token and all its parents must exist, be neither revoked nor expired, and belong to
/// existing, enabled users. Neither its role nor its end exceeds that of a parent or user. Blocks.
pub(crate) fn judge(
    token: Token,
    at: Timestamp,
    known: &impl Lookup,
) -> Result<Result<Standing, Unfit>, Fault> {
    let Some(own) = known.user(&token.user)? else {
        return Ok(Err(Unfit::Unknown));
    };
    let mut standing = Standing {
        role: token.role,
        expires: token.expires,
        chain: Vec::new(),
        signed_in: true,
        user: own,
        token: token.clone(),
    };
    let names = known.names()?;
    let mut next = token;
    loop {
        let Some(origin) = TokenOrigin::of_scope(&next.scope) else {
            return Ok(Err(Unfit::Unknown));
        };
        if next.revoked.is_some() {
            return Ok(Err(Unfit::Revoked(next.id)));
        }
        if next.expires.is_some_and(|expires| expires <= at) {
            return Ok(Err(Unfit::Expired(next.id)));
        }
        let Some(user) = known.user(&next.user)? else {
            return Ok(Err(Unfit::Orphan(standing.token.id)));
        };
        if user.disabled {
            return Ok(Err(Unfit::Disabled(user.name)));
        }
        if names.check_acting(&user).is_err() {
            return Ok(Err(Unfit::Reserved(user.name)));
        }
        standing.role = cmp::min(standing.role, cmp::min(next.role, user.role));
        standing.expires = earlier(standing.expires, next.expires);
        standing.chain.push(next.id);
        standing.signed_in &= origin.is_sign_in();
        if let Some(maker) = origin.maker() {
            let unfit = made_by(maker, &standing, known)?;
            return Ok(unfit.map_or(Ok(standing), Err));
        }
        let Some(parent) = origin.parent() else {
            return Ok(Ok(standing));
        };
        match known.token(parent)? {
            Some(parent) if standing.has_room() => next = parent,
            _ => return Ok(Err(Unfit::Orphan(standing.token.id))),
        }
    }
}

/// Checks the admin who made the first token of a chain for another user. Returns why the chain is not valid; None if it is.
fn made_by(maker: &str, standing: &Standing, known: &impl Lookup) -> Result<Option<Unfit>, Fault> {
    // The last of the chain is the token that the maker made.
    let token = standing.chain.last().unwrap_or(&standing.token.id).clone();
    let Some(maker) = known.user(maker)? else {
        let maker = maker.to_owned();
        return Ok(Some(Unfit::MakerGone { token, maker }));
    };
    Ok(if maker.disabled {
        Some(Unfit::Disabled(maker.name))
    } else if known.names()?.check_acting(&maker).is_err() {
        Some(Unfit::Reserved(maker.name))
    } else if maker.role != Role::Admin {
        let maker = maker.name;
        Some(Unfit::MakerLowered { token, maker })
    } else {
        None
    })
}

/// The earlier of two ends; None is no end.
pub(crate) fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use godwit_state::Secret;

    use super::*;

    /// Tokens and users of a test.
    struct World(Vec<Token>, Vec<User>);

    impl World {
        fn all(&self) -> Known {
            let tokens = self.0.iter().cloned();
            let users = self.1.iter().cloned();
            Known {
                tokens: tokens.map(|token| (token.id.clone(), token)).collect(),
                users: users.map(|user| (user.name.clone(), user)).collect(),
                names: Names::of(&[]),
            }
        }
    }

    fn token(id: &str, user: &str, scope: &str) -> Token {
        Token {
            id: id.to_owned(),
            user: user.to_owned(),
            hash: Secret::new(id),
            scope: scope.to_owned(),
            role: Role::Admin,
            created: Timestamp(0),
            expires: None,
            revoked: None,
            last_digits: String::new(),
            comment: String::new(),
        }
    }

    /// A session of ada, from a token that bob made with his log-in.
    fn known() -> World {
        let user = |name: &str| User {
            name: name.to_owned(),
            role: Role::Admin,
            password: None,
            disabled: false,
        };
        let tokens = vec![
            token("session", "ada", "session made"),
            token("made", "ada", "token log-in"),
            token("log-in", "bob", "login"),
        ];
        World(tokens, vec![user("ada"), user("bob")])
    }

    fn judged(known: &World) -> Result<Standing, Unfit> {
        judge(known.0[0].clone(), Timestamp(100), &known.all()).expect("nothing is read")
    }

    #[test]
    fn every_ancestor_counts() {
        let good = judged(&known()).expect("good");
        assert_eq!((good.role, good.expires), (Role::Admin, None));
        assert_eq!(good.chain, ["session", "made", "log-in"]);
        assert!(!good.signed_in);
        let log_in = judge(known().0[2].clone(), Timestamp(100), &known().all());
        assert!(log_in.expect("nothing is read").expect("good").signed_in);
        for at in 0..3 {
            let with = |change: &dyn Fn(&mut Token)| {
                let mut known = known();
                change(&mut known.0[at]);
                judged(&known)
            };
            let id = known().0[at].id.clone();
            let revoked = with(&|token| token.revoked = Some(Timestamp(99)));
            assert_eq!(revoked.expect_err("revoked"), Unfit::Revoked(id.clone()));
            let expired = with(&|token| token.expires = Some(Timestamp(100)));
            assert_eq!(expired.expect_err("expired"), Unfit::Expired(id));
            let later = with(&|token| token.expires = Some(Timestamp(101))).expect("good");
            assert_eq!(later.expires, Some(Timestamp(101)));
            let less = with(&|token| token.role = Role::Viewer).expect("good");
            assert_eq!(less.role, Role::Viewer);
            let unknown = with(&|token| "who knows".clone_into(&mut token.scope));
            assert_eq!(unknown.expect_err("unknown"), Unfit::Unknown);
        }
        for at in 0..2 {
            let mut disabled = known();
            disabled.1[at].disabled = true;
            let name = disabled.1[at].name.clone();
            assert_eq!(judged(&disabled).expect_err("out"), Unfit::Disabled(name));
            let mut lowered = known();
            lowered.1[at].role = Role::Operator;
            assert_eq!(judged(&lowered).expect("good").role, Role::Operator);
            let mut gone = known();
            gone.1.remove(at);
            assert!(judged(&gone).is_err());
            let mut pruned = known();
            pruned.0.remove(at + 1);
            let orphan = Unfit::Orphan("session".to_owned());
            assert_eq!(judged(&pruned).expect_err("an orphan"), orphan);
        }
    }

    #[test]
    fn a_token_for_another_user_ends_with_its_maker() {
        let made = || {
            let mut world = known();
            world.0 = vec![token("made", "bob", "by ada")];
            world
        };
        assert_eq!(judged(&made()).expect("good").user.name, "bob");
        let mut disabled = made();
        disabled.1[0].disabled = true;
        let out = Unfit::Disabled("ada".to_owned());
        assert_eq!(judged(&disabled).expect_err("out"), out);
        let mut lowered = made();
        lowered.1[0].role = Role::Operator;
        let (token_id, maker) = ("made".to_owned(), "ada".to_owned());
        let unfit = Unfit::MakerLowered {
            token: token_id.clone(),
            maker: maker.clone(),
        };
        // A session of the token names the token that the maker made.
        lowered.0.insert(0, token("session", "bob", "session made"));
        assert_eq!(judged(&lowered).expect_err("no admin"), unfit);
        lowered.0.remove(0);
        assert_eq!(judged(&lowered).expect_err("no admin"), unfit);
        let mut gone = made();
        gone.1.remove(0);
        let unfit = Unfit::MakerGone {
            token: token_id,
            maker,
        };
        assert_eq!(judged(&gone).expect_err("gone"), unfit);
    }

    #[test]
    fn a_chain_without_end_is_refused() {
        let mut known = known();
        known.0 = vec![token("a", "ada", "token b"), token("b", "ada", "token a")];
        assert_eq!(
            judged(&known).expect_err("a circle"),
            Unfit::Orphan("a".to_owned())
        );
    }
}
