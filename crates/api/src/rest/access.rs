//! The documents of sites, users, tokens, exports and the node itself.
//! Holds no secret but in the one answer that makes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// What a user may do; each role includes those before it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    /// Sees everything but secrets, and names of entries that no rule lets the user list.
    Viewer,
    /// Submits and steers jobs, too.
    Operator,
    /// Changes sites, users, tokens and access, too.
    Admin,
}

/// A site to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSite {
    /// Addresses of its nodes, each as `HOST[:PORT]`.
    pub addresses: Vec<String>,
    /// Identity that its nodes prove.
    pub identity: String,
    /// Free text.
    #[serde(default)]
    pub comment: String,
}

/// A site.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SiteView {
    /// Name of the site.
    pub name: String,
    /// Addresses of its nodes.
    pub addresses: Vec<String>,
    /// Identity that its nodes prove.
    pub identity: String,
    /// Free text.
    pub comment: String,
}

/// A user to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// What the user may do.
    pub role: RoleName,
    /// Password for the page; without one the user has tokens only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The user is let in nowhere.
    #[serde(default)]
    pub disabled: bool,
    /// All tokens that the user has are revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoke_tokens: bool,
}

/// A user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct UserView {
    /// Name of the user.
    pub name: String,
    /// What the user may do.
    pub role: RoleName,
    /// The user has a password.
    pub has_password: bool,
    /// The user is let in nowhere.
    pub disabled: bool,
}

/// A token to make.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// User for whom the token speaks; None is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Most that the token allows; it never allows more than the user may do.
    pub role: RoleName,
    /// When the token ends; None is never. It never lasts longer than the token or session of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Free text.
    #[serde(default)]
    pub comment: String,
    /// The caller's password. With it the token does not end with the token or session of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Where a token came from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Somebody asked for it.
    Token,
    /// A log-in with a password.
    LogIn,
    /// A session of the page.
    Session,
}

/// A user's name and password, for a token of a working day.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: String,
}

/// What a person signs in to the page with: a name and a password, or a token.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// Name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Secret of a token, instead of name and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Who is signed in.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SessionView {
    /// Name of the user; None while nobody is signed in.
    pub user: Option<String>,
    /// What the user may do.
    pub role: Option<RoleName>,
    /// When the session ends; None if it does not end by itself.
    pub expires: Option<Timestamp>,
    /// The node has a user who can sign in with a password.
    pub users: bool,
}

/// A token that was made.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TokenCreated {
    /// The token as it is listed.
    pub token: TokenView,
    /// The secret; it is shown this once.
    pub secret: String,
}

/// A token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TokenView {
    /// Id, to revoke it by.
    pub id: String,
    /// User for whom it speaks.
    pub user: String,
    /// Most that it allows.
    pub role: RoleName,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
    /// The last signs of the secret.
    pub last_digits: String,
    /// Free text.
    pub comment: String,
    /// Where it came from.
    pub kind: TokenKind,
    /// Id of the token or session that it came from; it ends with that one.
    pub parent: Option<String>,
    /// It is good now: neither it nor what it came from is revoked or has expired, and no user of them is disabled.
    pub usable: bool,
}

/// The account of the caller.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AccountView {
    /// Name of the user.
    pub user: String,
    /// What the caller may do in this request.
    pub role: RoleName,
    /// The user has a password.
    pub has_password: bool,
    /// The caller may change the password, and end sessions and tokens: not with a token of a viewer.
    pub may_change: bool,
    /// Id of the token or session that the request shows; None on the Unix socket.
    pub current: Option<String>,
    /// Sessions, log-ins and tokens of the user that are good now.
    pub tokens: Vec<TokenView>,
}

/// A change of the caller's own password.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// The password that the user has.
    pub current: String,
    /// The password that the user wants: at least 8 signs.
    pub new: String,
}

/// An export of the node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ExportView {
    /// Name of the export.
    pub name: String,
    /// Bytes free on its file system; None where that is not known.
    pub bytes_free: Option<u64>,
    /// Bytes of its file system.
    pub bytes_total: Option<u64>,
}

/// The node that answers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct NodeView {
    /// Version of the program.
    pub version: String,
    /// Identity that the node proves.
    pub identity: String,
    /// When it was started.
    pub started: Timestamp,
    /// Exports that it has.
    pub exports: Vec<ExportView>,
    /// Who asks.
    pub user: String,
    /// What the asker may do.
    pub role: RoleName,
}
