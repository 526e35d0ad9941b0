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

    /// Checks that the user may act under its name. A name that belongs to another party is refused. An account of a machine is an admin
    /// without a password, and so is the user that stands for it.
    ///
    /// # Errors
    /// The error names the owner of the name, and the remedy.
    pub fn check_acting(&self, user: &User) -> Result<(), CommandError> {
        let name = &user.name;
        if self.is_account(name) {
            let stands_for = user.role == Role::Admin && user.password.is_none();
            return match stands_for {
                true => Ok(()),
                false => Err(taken(name, ACCOUNT)),
            };
        }
        if self.nodes.contains(name) {
            return Err(taken(name, "a node"));
        }
        if name.starts_with("site:") {
            return Err(taken(name, "another site"));
        }
        match WORDS.contains(&name.as_str()) {
            true => Err(taken(name, "the node itself")),
            false => Ok(()),
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

    /// Checks that `actor` may make the user or a token of the user. Only an account of a machine may do so for itself.
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
    fn a_user_has_a_name_of_its_own() {
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
    fn a_node_is_not_called_as_an_actor_that_is_none() {
        for name in ["dtn2", "node1", "a3.example.org"] {
            assert_eq!(check_node(name), Ok(()), "{name}");
        }
        for name in ["root", "anonymous", "site:gw1-a", "", "a b"] {
            assert!(check_node(name).is_err(), "{name:?}");
        }
    }
}
