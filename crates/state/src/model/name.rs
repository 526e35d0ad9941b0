//! Owns the allowed names of users and nodes, and decides which user may act under its name. Does not know the machine's accounts: the
//! caller passes them.
//!
//! Users, nodes, accounts of machines and other sites all appear as actors, owners of jobs and lines of the audit log. Therefore each
//! name means exactly one of them.

use super::{CommandError, Node, Role, User};

/// Longest name: the longest mail addresses fit.
const NAME_BYTES_MAX: usize = 64;

/// Characters of a name besides ASCII letters and digits.
const SIGNS: &[u8] = b"._-@+";

/// Names of actors that are neither user nor node. `node1` is the name of a node that was never in a cluster.
const WORDS: [&str; 6] = ["root", "anonymous", "api", "webhooks", "recover", "node1"];

const ACCOUNT: &str = "an account of the node's machine that is always an admin";

/// Names that are reserved, so no user may have them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// Accounts of machines that are admins without being users.
    pub accounts: Vec<String>,
}

impl Names {
    /// The reserved names that these nodes have reported.
    #[must_use]
    pub fn of(nodes: &[Node]) -> Self {
        Self {
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            accounts: nodes.iter().flat_map(|node| node.admins.clone()).collect(),
        }
    }

    /// Whether the name is an account that is always an admin of its machine.
    #[must_use]
    pub fn is_account(&self, name: &str) -> bool {
        name == "root" || self.accounts.iter().any(|account| account == name)
    }

    /// Whether a node may report this account as an admin of its machine, given the user of the name. A user keeps its name and role, unless
    /// it stands for an account that a node has reported before. A new account has the name of no other party. The row of a cluster's
    /// first node may have any accounts.
    #[must_use]
    pub fn may_report(&self, node: &str, account: &str, user: Option<&User>) -> bool {
        let is_reported = self.nodes.is_empty() || self.is_account(account);
        match user {
            _ if account == "root" => true,
            Some(user) => is_reported && stands_for_account(user),
            None => is_reported || account == node || self.owner_of(account).is_none(),
        }
    }

    /// The party other than a user and an account to which the name belongs.
    fn owner_of(&self, name: &str) -> Option<&'static str> {
        match name {
            _ if self.nodes.iter().any(|node| node == name) => Some("a node"),
            _ if name.starts_with("site:") => Some("another site"),
            _ => WORDS.contains(&name).then_some("the node itself"),
        }
    }

    /// Checks that the user may act under its name. A name that belongs to another party is refused. An account of a machine is an admin
    /// without a password, and so is the user that stands for it.
    ///
    /// # Errors
    /// The error names the owner of the name, and the remedy.
    pub fn check_acting(&self, user: &User) -> Result<(), CommandError> {
        let name = &user.name;
        if self.is_account(name) {
            return match stands_for_account(user) {
                true => Ok(()),
                false => Err(taken(name, ACCOUNT)),
            };
        }
        match self.owner_of(name) {
            Some(owner) => Err(taken(name, owner)),
            None => Ok(()),
        }
    }

    /// Checks that `actor` may put the user into the state in place of `earlier`. A user of an older state keeps its name. A user whose
    /// name belongs to another party can be disabled.
    ///
    /// # Errors
    /// The name has invalid characters, or belongs to another party.
    pub fn check_user(
        &self,
        user: &User,
        earlier: Option<&User>,
        actor: &str,
    ) -> Result<(), CommandError> {
        match earlier {
            Some(_) if user.disabled => return Ok(()),
            Some(_) => {}
            None => check_signs(&user.name)?,
        }
        self.check_made_by(user, actor)
    }

    /// Checks that `actor` may make the user or a token of the user. Only an account of a machine may make its own user and tokens.
    ///
    /// # Errors
    /// The name belongs to another party.
    pub fn check_made_by(&self, user: &User, actor: &str) -> Result<(), CommandError> {
        self.check_acting(user)?;
        match self.is_account(&user.name) && user.name != actor {
            true => Err(taken(&user.name, ACCOUNT)),
            false => Ok(()),
        }
    }
}

/// Whether the user has the rights of an account of a machine: an admin without a password.
pub(crate) fn stands_for_account(user: &User) -> bool {
    user.role == Role::Admin && user.password.is_none()
}

/// Checks the name of a joining node.
///
/// # Errors
/// The name has invalid characters, or belongs to another party.
pub(crate) fn check_node(name: &str) -> Result<(), CommandError> {
    check_signs(name)?;
    match WORDS.contains(&name) && name != "node1" {
        true => Err(CommandError::invalid(
            "name",
            format!("{name:?} is not allowed as a node name; choose a different name"),
        )),
        false => Ok(()),
    }
}

fn check_signs(name: &str) -> Result<(), CommandError> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || SIGNS.contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_sign) {
        return Ok(());
    }
    Err(CommandError::invalid(
        "name",
        format!(
            "a name has 1 to {NAME_BYTES_MAX} letters, digits and signs of `. _ - @ +`, and begins with a letter, a digit or `_`"
        ),
    ))
}

fn taken(name: &str, by: &str) -> CommandError {
    CommandError::invalid(
        "name",
        format!(
            "{name:?} is the name of {by}, so it is not allowed as a user name; choose a different name"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    fn user(name: &str, role: Role, password: Option<&str>) -> User {
        User {
            name: name.to_owned(),
            role,
            password: password.map(Secret::new),
            disabled: false,
        }
    }

    fn names() -> Names {
        Names {
            nodes: vec!["dtn2".to_owned()],
            accounts: vec!["godwit".to_owned()],
        }
    }

    #[test]
    fn invalid_and_reserved_user_names_are_refused() {
        for name in ["alice", "a.b-c_d+e@example.org", "_svc", "0", "uid-1000"] {
            let made = names().check_user(&user(name, Role::Viewer, Some("x")), None, "bob");
            assert_eq!(made, Ok(()), "{name}");
        }
        let long = "a".repeat(65);
        for name in [
            "root",
            "godwit",
            "node1",
            "dtn2",
            "anonymous",
            "api",
            "webhooks",
            "recover",
            "site:gw1-abc",
            "user:alice",
            "",
            "-a",
            ".a",
            "a b",
            "a/b",
            "a\n",
            "j\u{f6}rg",
            "\u{202e}alice",
            "*",
            &long,
        ] {
            let made = names().check_user(&user(name, Role::Viewer, Some("x")), None, "bob");
            assert!(made.is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_user_of_a_machines_account_is_made_by_the_account_and_is_what_the_account_is() {
        for name in ["root", "godwit"] {
            let own = user(name, Role::Admin, None);
            assert_eq!(names().check_user(&own, None, name), Ok(()));
            assert!(
                names().check_user(&own, None, "alice").is_err(),
                "another admin"
            );
            for other in [
                user(name, Role::Operator, None),
                user(name, Role::Admin, Some("x")),
            ] {
                assert!(names().check_user(&other, None, name).is_err());
                assert!(names().check_acting(&other).is_err());
            }
        }
    }

    #[test]
    fn a_user_of_an_old_state_acts_unless_the_name_means_somebody_else() {
        let old = |name: &str| names().check_acting(&user(name, Role::Viewer, Some("x")));
        assert_eq!(old("J\u{f6}rg M\u{fc}ller"), Ok(()));
        for name in [
            "root",
            "godwit",
            "node1",
            "dtn2",
            "site:gw1-abc",
            "anonymous",
        ] {
            assert!(old(name).is_err(), "{name}");
            let earlier = user(name, Role::Viewer, Some("x"));
            let put = |user: &User| names().check_user(user, Some(&earlier), "bob");
            assert!(put(&earlier).is_err(), "{name}");
            let disabled = User {
                disabled: true,
                ..earlier.clone()
            };
            assert_eq!(put(&disabled), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_reported_account_takes_no_user_over() {
        let admin = user("carol", Role::Admin, None);
        let viewer = user("bob", Role::Viewer, Some("x"));
        let may = |account: &str, user: Option<&User>| names().may_report("dtn3", account, user);
        assert!(may("svc", None));
        assert!(!may("carol", Some(&admin)));
        assert!(!may("bob", Some(&viewer)));
        let of_account = user("godwit", Role::Admin, None);
        assert!(may("godwit", Some(&of_account)));
        let same_name = user("godwit", Role::Viewer, Some("x"));
        assert!(!may("godwit", Some(&same_name)));
        assert!(may("root", Some(&user("root", Role::Viewer, None))));
        // A single node has no row when its account makes its first user.
        let alone = Names::default();
        assert!(alone.may_report("node1", "godwit", Some(&of_account)));
        assert!(!alone.may_report("node1", "bob", Some(&viewer)));
    }

    #[test]
    fn a_reported_account_has_the_name_of_no_other_party() {
        for account in ["dtn2", "site:gw1-a", "api", "webhooks", "anonymous"] {
            assert!(!names().may_report("dtn3", account, None), "{account}");
        }
        // Its node has that name, or another node has reported the account before.
        assert!(names().may_report("dtn2", "dtn2", None));
        let mut reported = names();
        reported.accounts.push("dtn2".to_owned());
        assert!(reported.may_report("dtn3", "dtn2", None));
    }

    #[test]
    fn a_node_is_not_called_as_an_actor_that_is_none() {
        for name in ["dtn2", "node1", "a3.example.org"] {
            assert_eq!(check_node(name), Ok(()), "{name}");
        }
        for name in ["root", "anonymous", "site:gw1-a", "", "a b"] {
            assert!(check_node(name).is_err(), "{name:?}");
        }
    }
}
