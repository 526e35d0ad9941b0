//! Identifies the sender of a request and its rights: peer credentials of the Unix socket, bearer tokens, sessions, roles.
//! Judges no token (`standing`), makes none, and checks no password.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::Version;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use godwit_api::failure::FailureCode;
use godwit_api::rest::RoleName;
use godwit_jobs::now;
use godwit_state::{Actor, Names, Role, Timestamp, Token, User};

use crate::app::App;
use crate::crowd::Member;
use crate::machine;
use crate::middleware::Label;
use crate::places::{Connected, Key};
use crate::problem::ApiError;
use crate::refusals::{Proven, cut};
use crate::standing::{self, Shown, Standing, Unfit};
use crate::turns::Holder;
use crate::{browser, session, throttle};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Peer {
    /// A process of this machine, and its user.
    Local {
        /// The user's number.
        uid: u32,
    },
    /// Another machine, or this one by the network.
    Network(SocketAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { uid } => write!(f, "local uid {uid}"),
            Self::Network(address) => write!(f, "{}", address.ip().to_canonical()),
        }
    }
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Token or session that the request shows; None for a user of this machine.
    pub(crate) standing: Option<Standing>,
    /// The other end, and what the request needs.
    peer: Option<Peer>,
    need: Need,
    remote: String,
    request: String,
}

impl Caller {
    /// The caller as commands name it.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            name: self.name.clone(),
            role: Some(self.role),
            remote: Some(self.remote.clone()),
            request: Some(self.request.clone()),
            via: None,
        }
    }

    /// The caller and the request, for the log.
    pub(crate) fn described(&self) -> String {
        format!(
            "{} from {}, request {}",
            self.name, self.remote, self.request
        )
    }

    /// Key of the token or session that the request shows; None for a user of this machine. All tokens and sessions that came from one
    /// token share its key, so they get no more turns than that token alone.
    pub(crate) fn credential(&self) -> Option<throttle::Key> {
        let first = self.standing.as_ref()?.first();
        Some(throttle::key(&[&self.name, first]))
    }

    /// Identifies the caller again, as the state is now, and checks the same need. Blocks.
    pub(crate) fn again(&self, app: &App) -> Result<Self, ApiError> {
        let (role, standing) = match (&self.standing, self.peer) {
            (Some(standing), _) => {
                let token = app.reader().object::<Token>(&standing.token.id)?;
                let token = token.ok_or(Unfit::Unknown)?;
                let standing = standing::judge(token, now(), app)??;
                (standing.role, Some(standing))
            }
            (None, Some(Peer::Local { uid })) => (machine::by_uid(uid, app)?.role, None),
            (None, _) => (self.role, None),
        };
        let caller = Self {
            role,
            standing,
            ..self.clone()
        };
        match self.need.check(&caller) {
            Ok(()) => Ok(caller),
            Err(detail) => Err(ApiError::forbidden(FailureCode::RoleTooSmall, detail)),
        }
    }

    /// Whether a person sent the request: signed in with a password, or from this machine.
    fn is_signed_in(&self) -> bool {
        let standing = self.standing.as_ref();
        standing.is_none_or(|standing| standing.signed_in)
    }

    /// Whether the caller may change the own account.
    pub(crate) fn may_change_account(&self) -> bool {
        self.role >= Role::Operator || self.is_signed_in()
    }

    /// Whether the caller may change what belongs to `owner`.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.role == Role::Admin || self.name == owner
    }
}

/// A caller that may at least look.
pub(crate) struct Viewer(pub(crate) Caller);

/// A caller that may at least submit jobs and steer its own.
pub(crate) struct Operator(pub(crate) Caller);

/// A caller that may do everything.
pub(crate) struct Admin(pub(crate) Caller);

/// A caller that may change its own account: password, sessions and tokens.
pub(crate) struct Owner(pub(crate) Caller);

macro_rules! extractor {
    ($name:ident, $need:expr) => {
        impl FromRequestParts<Arc<App>> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(
                parts: &mut Parts,
                app: &Arc<App>,
            ) -> Result<Self, ApiError> {
                let request = Request::of(parts);
                app.authenticate(request, $need).await.map(Self)
            }
        }
    };
}

extractor!(Viewer, Need::Role(Role::Viewer));
extractor!(Operator, Need::Role(Role::Operator));
extractor!(Admin, Need::Role(Role::Admin));
extractor!(Owner, Need::OwnAccount);

/// The right that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// At least this role.
    Role(Role),
    /// A user in person: signed in, a user of this machine, or an operator. A token that may only look is not enough.
    OwnAccount,
}

impl Need {
    /// Checks that the caller has this right. The error says what is missing.
    fn check(self, caller: &Caller) -> Result<(), String> {
        let is_met = match self {
            Self::Role(least) => caller.role >= least,
            Self::OwnAccount => caller.may_change_account(),
        };
        if is_met {
            return Ok(());
        }
        let needs = match self {
            Self::Role(least) => least.name(),
            Self::OwnAccount => {
                "a log-in with the password, because a token with the role viewer can only read"
            }
        };
        Err(format!(
            "{} is {} here; this request needs {needs}",
            caller.name,
            caller.role.name()
        ))
    }
}

/// The parts of a request that identify its sender, and what it asks for.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) peer: Option<Peer>,
    authorization: Option<Vec<u8>>,
    session: Option<session::Cookie>,
    /// Secret of a browser in which a user signed in before.
    pub(crate) browser: Option<String>,
    /// A proxy sends the request for another sender.
    forwarded: bool,
    connected: Option<Connected>,
    /// Counts the request among those of its user.
    pub(crate) member: Option<Member>,
    pub(crate) id: String,
    method: String,
    path: String,
    proven: Option<Proven>,
}

impl Request {
    pub(crate) fn of(parts: &Parts) -> Self {
        let authorization = parts.headers.get(AUTHORIZATION);
        let label = parts.extensions.get::<Label>();
        Self {
            peer: parts.extensions.get::<Peer>().copied(),
            authorization: authorization.map(|value| value.as_bytes().to_vec()),
            session: session::Cookie::of(parts),
            browser: browser::secret(&parts.headers),
            forwarded: is_forwarded(parts),
            connected: parts.extensions.get::<Connected>().cloned(),
            member: parts.extensions.get::<Member>().cloned(),
            id: label.map(|label| label.id.clone()).unwrap_or_default(),
            method: parts.method.to_string(),
            path: label.map(|label| label.path.clone()).unwrap_or_default(),
            proven: parts.extensions.get::<Proven>().cloned(),
        }
    }

    /// Key under which senders are counted together: a user of this machine, an IPv4 address, or an IPv6 network.
    pub(crate) fn key(&self) -> String {
        self.peer
            .map_or_else(String::new, |peer| format!("{:?}", Key::of(peer)))
    }

    /// Holder that shares turns among senders that have not proven a user.
    pub(crate) fn place(&self) -> Option<Holder> {
        self.peer.map(|peer| Holder::Stranger(Key::of(peer)))
    }

    /// Whether the request changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        ["GET", "HEAD", "OPTIONS"].contains(&self.method.as_str())
    }

    /// Notes that this caller sent the request.
    pub(crate) fn is_of(&self, caller: &Caller) {
        if let Some(proven) = &self.proven {
            proven.is(caller.actor());
        }
    }

    /// Notes that the sender has proven to be this user. The connection is then never closed for a new one.
    pub(crate) fn proves(&self, user: &str) {
        if let Some(connected) = &self.connected {
            connected.prove(user);
        }
    }

    fn remote(&self) -> String {
        self.peer
            .map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
    }

    /// Actor for commands of an unproven sender.
    pub(crate) fn stranger(&self) -> Actor {
        Actor {
            name: "anonymous".to_owned(),
            role: None,
            remote: Some(self.remote()),
            request: Some(self.id.clone()),
            via: None,
        }
    }

    /// Actor for commands of a proven user.
    pub(crate) fn actor_of(&self, user: &User) -> Actor {
        Actor {
            name: user.name.clone(),
            role: Some(user.role),
            ..self.stranger()
        }
    }

    /// The session that the request names.
    pub(crate) const fn session(&self) -> Option<&session::Cookie> {
        self.session.as_ref()
    }

    /// Identifies the sender and checks what the request needs. Changes no state, because others wait for this. Blocks.
    pub(crate) fn caller(&self, need: Need, app: &App) -> Result<Caller, ApiError> {
        let found = self.identify(app).inspect_err(|error| {
            if error.status().is_client_error() {
                let code = error.code().clone();
                app.refused(self.stranger(), "request", &self.what(), code);
            }
        })?;
        let caller = Caller {
            name: found.name,
            role: found.role,
            standing: found.standing,
            peer: self.peer,
            need,
            remote: self.remote(),
            request: self.id.clone(),
        };
        let Err(detail) = need.check(&caller) else {
            return Ok(caller);
        };
        // The line of the audit log follows in the turns of the user (`refusals::log_refusals`).
        self.is_of(&caller);
        if let Some(member) = &self.member {
            member.prove(&caller.name, caller.credential())?;
        }
        Err(ApiError::forbidden(FailureCode::RoleTooSmall, detail))
    }

    /// Method and path, cut to what a line of the audit log takes.
    pub(crate) fn what(&self) -> String {
        cut(format!("{} {}", self.method, self.path))
    }

    /// Identifies the sender. The answer decides the standing of the connection. Blocks.
    pub(crate) fn identify(&self, app: &App) -> Result<Identified, ApiError> {
        let found = self.find(app);
        match (&found, &self.connected) {
            (Ok(found), _) => self.proves(&found.name),
            (Err(error), Some(connected)) if error.status().is_client_error() => {
                connected.doubt(Instant::now());
            }
            _ => {}
        }
        found
    }

    fn find(&self, app: &App) -> Result<Identified, ApiError> {
        if let Some(authorization) = &self.authorization {
            return by_token(authorization, app);
        }
        match (self.peer, &self.session) {
            (Some(Peer::Local { uid }), _) if !self.forwarded => machine::by_uid(uid, app),
            (_, Some(cookie)) => cookie.identify(&self.method, app),
            (Some(Peer::Local { .. }), None) => Err(ApiError::unauthenticated(
                FailureCode::NoCredentials,
                "a proxy or a browser sent this request to the socket, so the user of that \
                 process is not the caller: send a token as `Authorization: Bearer SECRET`",
            )),
            _ => Err(ApiError::unauthenticated(
                FailureCode::NoCredentials,
                "this request needs a session of the page or a token: send it as `Authorization: Bearer SECRET`; \
                 make one on the node's machine with: godwit token create",
            )),
        }
    }
}

/// An identified sender.
pub(crate) struct Identified {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// When the token or session ends.
    pub(crate) expires: Option<Timestamp>,
    /// Token or session that identifies the sender.
    pub(crate) standing: Option<Standing>,
}

impl From<Standing> for Identified {
    fn from(standing: Standing) -> Self {
        Self {
            name: standing.user.name.clone(),
            role: standing.role,
            expires: standing.expires,
            standing: Some(standing),
        }
    }
}

/// Whether a proxy sends the request, as far as the request shows. Programs of this machine speak HTTP/1.1 on the socket, and call the node
/// by one word, as in `http://localhost/`. A proxy may pass on the name by which its client called it, or speak HTTP/1.0.
fn is_forwarded(parts: &Parts) -> bool {
    let hosts = parts.headers.get_all(HOST).iter();
    let hosts = hosts.map(|host| host.as_bytes());
    let mut hosts = hosts.chain(parts.uri.authority().map(|host| host.as_str().as_bytes()));
    let is_word = |host: &[u8]| {
        let is_sign = |sign: &u8| sign.is_ascii_alphanumeric() || *sign == b'-';
        !host.is_empty() && host.iter().all(is_sign)
    };
    parts.version < Version::HTTP_11
        || !hosts.all(is_word)
        || parts.headers.keys().any(|name| is_of_proxy(name.as_str()))
}

/// Whether a header says that a proxy sends the request for another sender, who is not the proxy's own user. Proxies add most of these
/// headers. A browser adds the last three, and no browser speaks on a Unix socket.
fn is_of_proxy(header: &str) -> bool {
    const NAMES: [&str; 11] = [
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "true-client-ip",
        "cf-connecting-ip",
        "sec-fetch-site",
        "origin",
        "accept-language",
    ];
    header.starts_with("x-forwarded") || NAMES.contains(&header)
}

fn wrong_token() -> ApiError {
    ApiError::unauthenticated(
        FailureCode::BadToken,
        "the token is not known here; make one on the node's machine with: godwit token create",
    )
}

fn by_token(authorization: &[u8], app: &App) -> Result<Identified, ApiError> {
    let text = std::str::from_utf8(authorization).map_err(|_error| wrong_token())?;
    let (scheme, secret) = text.trim().split_once(' ').ok_or_else(wrong_token)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(ApiError::unauthenticated(
            FailureCode::BadToken,
            "the node takes bearer tokens only: `Authorization: Bearer SECRET`",
        ));
    }
    bearer(secret, app).map(Identified::from)
}

/// The token of this secret, if the token is valid and not a session. Blocks.
pub(crate) fn bearer(secret: &str, app: &App) -> Result<Standing, ApiError> {
    Ok(standing::of_secret(secret, Shown::Bearer, now(), app)??)
}

/// Reserved names, under which no user acts: names of nodes, and of accounts that are always admins of a machine.
pub(crate) fn names(app: &App) -> Result<Names, ApiError> {
    Ok(standing::names(&app.reader())?)
}

/// The role of a user who may act here. Blocks.
pub(crate) fn known(user: &User, app: &App) -> Result<Role, ApiError> {
    if let Err(error) = names(app)?.check_acting(user) {
        return Err(ApiError::forbidden(
            FailureCode::NameTaken,
            error.to_string(),
        ));
    }
    if user.disabled {
        return Err(ApiError::forbidden(
            FailureCode::UserDisabled,
            format!("the user {} is disabled on this node", user.name),
        ));
    }
    Ok(user.role)
}

/// The role as the documents name it.
pub(crate) const fn role_name(role: Role) -> RoleName {
    match role {
        Role::Viewer => RoleName::Viewer,
        Role::Operator => RoleName::Operator,
        Role::Admin => RoleName::Admin,
    }
}

/// The role that a document names.
pub(crate) const fn role(name: RoleName) -> Role {
    match name {
        RoleName::Viewer => Role::Viewer,
        RoleName::Operator => Role::Operator,
        RoleName::Admin => Role::Admin,
    }
}
