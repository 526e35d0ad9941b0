//! Owns the accounts of this machine: which are always admins, and which user of the state an account on the socket is.
//! Reads no request: `caller` does.

use godwit_api::failure::FailureCode;
use godwit_state::{Role, User};

use crate::app::App;
use crate::caller::{self, Identified};
use crate::problem::ApiError;

/// The number of root.
pub(crate) const ROOT: u32 = 0;

/// Names of the accounts of this machine that are admins without being users of the state: root, and the node's own user.
#[must_use]
pub fn machine_admins() -> Vec<String> {
    let mut names = vec![machine_admin(ROOT), machine_admin(own_uid())];
    names.dedup();
    names
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name under which root or the node's own user acts.
fn machine_admin(uid: u32) -> String {
    account(uid).unwrap_or_else(|| match uid {
        ROOT => "root".to_owned(),
        _ => format!("uid-{uid}"),
    })
}

fn account(uid: u32) -> Option<String> {
    let name = godwit_sys::accounts::user_name(uid)?;
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// Identifies an account. Root and the node's own user are admins; all others need a user of their name in the state. A user that stands
/// for an account of another machine does not match the account of that name here.
pub(crate) fn by_uid(uid: u32, app: &App) -> Result<Identified, ApiError> {
    let identified = |name: String, role: Role| Identified {
        name,
        role,
        expires: None,
        standing: None,
    };
    if uid == own_uid() || uid == ROOT {
        return Ok(identified(machine_admin(uid), Role::Admin));
    }
    let Some(name) = account(uid) else {
        return Err(ApiError::forbidden(
            FailureCode::UnknownUser,
            format!("this machine has no user with the number {uid}"),
        ));
    };
    if caller::names(app)?.is_account(&name) {
        return Err(ApiError::forbidden(
            FailureCode::NameTaken,
            format!(
                "{name:?} is an admin account on another machine of the cluster, and the account of that \
                 name here does not count; use a token, or act as root or as the node's own user"
            ),
        ));
    }
    let user = app.reader().object::<User>(&name)?;
    let user = user.ok_or_else(|| {
        ApiError::forbidden(
            FailureCode::UnknownUser,
            format!(
                "this node has no user {name:?}; an admin adds it with: godwit user add {name} --role operator"
            ),
        )
    })?;
    let role = caller::known(&user, app)?;
    Ok(identified(name, role))
}
