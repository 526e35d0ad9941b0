//! The documents of sites, users, tokens, exports and the node itself.
//! Contain no secret, except in the one answer that creates it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// Role of a user. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    /// May see everything except secrets, and names of entries that no rule lets the user list.
    Viewer,
    /// May also submit and steer jobs.
    Operator,
    /// May also change sites, users, tokens and access rules.
    Admin,
}

/// A site to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSite {
    /// Addresses of the site's nodes, each as `HOST[:PORT]`.
    pub addresses: Vec<String>,
    /// Identity that its nodes prove.
    pub identity: String,
    /// Free text.
    #[serde(default)]
    pub comment: String,
    /// Independent nodes of the same file system, which are no cluster with the first node. Jobs to the site are divided among them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<IndependentNode>,
}

/// A node that shares the file system of its site, and no cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IndependentNode {
    /// Addresses of the node, each as `HOST[:PORT]`.
    pub addresses: Vec<String>,
    /// Identity that the node proves.
    pub identity: String,
}

/// A site.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SiteView {
    /// Name of the site.
    pub name: String,
    /// Addresses of the site's nodes.
    pub addresses: Vec<String>,
    /// Identity that its nodes prove.
    pub identity: String,
    /// Free text.
    pub comment: String,
    /// Independent nodes of the same file system, which are no cluster with the first node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<IndependentNode>,
}

/// A user to add or replace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Role of the user.
    pub role: RoleName,
    /// Password for the page. Without a password, the user has tokens only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The user cannot log in or use tokens.
    #[serde(default)]
    pub disabled: bool,
    /// Revokes all tokens of the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoke_tokens: bool,
}

/// A user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct UserView {
    /// Name of the user.
    pub name: String,
    /// Role of the user.
    pub role: RoleName,
    /// The user has a password.
    pub has_password: bool,
    /// The user cannot log in or use tokens.
    pub disabled: bool,
}

/// A token to make.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// User of the token; default the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Highest role of the token. The token never allows more than the role of its user.
    pub role: RoleName,
    /// When the token ends; default never. The token never lasts longer than the token or session of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Free text.
    #[serde(default)]
    pub comment: String,
    /// The caller's password. With it the token does not end with the token or session of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Origin of a token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Made on request.
    Token,
    /// Made by a log-in with a password.
    LogIn,
    /// Made by a session of the page.
    Session,
}

/// A user's name and password, for a token that lasts one working day.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: String,
}

/// Credentials for signing in to the page: a name and a password, or a token.
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

/// The signed-in user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct SessionView {
    /// Name of the user; null if no user is signed in.
    pub user: Option<String>,
    /// Role of the user; null if no user is signed in.
    pub role: Option<RoleName>,
    /// When the session ends; null if it has no end.
    pub expires: Option<Timestamp>,
    /// At least one user of the node can sign in with a password.
    pub users: bool,
}

/// A new token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TokenCreated {
    /// The token as it is listed.
    pub token: TokenView,
    /// The secret. Only this answer shows it.
    pub secret: String,
}

/// A token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TokenView {
    /// Id of the token, needed to revoke it.
    pub id: String,
    /// User of the token.
    pub user: String,
    /// Highest role of the token.
    pub role: RoleName,
    /// When the token was made.
    pub created: Timestamp,
    /// When the token ends; null is never.
    pub expires: Option<Timestamp>,
    /// When the token was revoked; null if it was not.
    pub revoked: Option<Timestamp>,
    /// Last characters of the secret.
    pub last_digits: String,
    /// Free text.
    pub comment: String,
    /// Origin of the token.
    pub kind: TokenKind,
    /// Id of the parent: the token or session that this token came from. The token ends with its parent.
    pub parent: Option<String>,
    /// The token is valid now: neither the token nor a parent is revoked or expired, and none of their users is disabled.
    pub usable: bool,
}

/// The account of the caller.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AccountView {
    /// Name of the user.
    pub user: String,
    /// Role of the caller in this request.
    pub role: RoleName,
    /// The user has a password.
    pub has_password: bool,
    /// The caller may change the password, and end sessions and tokens. A token with the role `viewer` may not.
    pub may_change: bool,
    /// Id of the token or session of the request; null on the Unix socket.
    pub current: Option<String>,
    /// Valid sessions, log-ins and tokens of the user.
    pub tokens: Vec<TokenView>,
}

/// A change of the caller's password.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// The current password of the user.
    pub current: String,
    /// The new password of the user, with at least 8 characters.
    pub new: String,
}

/// An export of the node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ExportView {
    /// Name of the export.
    pub name: String,
    /// Free bytes of its file system; null if unknown.
    pub bytes_free: Option<u64>,
    /// Size of its file system in bytes; null if unknown.
    pub bytes_total: Option<u64>,
}

/// The node that answers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct NodeView {
    /// Version of the program.
    pub version: String,
    /// Identity that the node proves.
    pub identity: String,
    /// When the node started.
    pub started: Timestamp,
    /// Exports of the node.
    pub exports: Vec<ExportView>,
    /// Name of the caller.
    pub user: String,
    /// Role of the caller.
    pub role: RoleName,
}
