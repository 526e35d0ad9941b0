//! Owns the names of users and groups on this machine. Each name is looked up once. Does not
//! decide which account an entry belongs to at the other end.

use godwit_sys::accounts;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Most remembered answers of one kind; if more come, all of them are forgotten.
const KEPT_MAX: usize = 16 * 1024;

/// Longest name that is sent or looked up, in bytes; systems allow 32 to 256.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 255;

/// Users or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// Users.
    User,
    /// Groups.
    Group,
}

/// Remembered answers of the system's databases. The superuser's id is the same everywhere, so it has no name here.
#[derive(Debug, Default)]
pub struct Accounts {
    names: Known<u32, Vec<u8>>,
    ids: Known<Vec<u8>, u32>,
}

/// Answers by kind and key; `None` for an account that does not exist.
type Known<K, V> = Mutex<HashMap<(AccountKind, K), Option<V>>>;

impl Accounts {
    /// The name of an id; `None` for an id without a name, and for 0.
    pub fn name(&self, kind: AccountKind, id: u32) -> Option<Vec<u8>> {
        if id == 0 {
            return None;
        }
        remembered(&self.names, (kind, id), || {
            let name = match kind {
                AccountKind::User => accounts::user_name(id),
                AccountKind::Group => accounts::group_name(id),
            };
            name.filter(|name| !name.is_empty() && name.len() <= ACCOUNT_NAME_BYTES_MAX)
        })
    }

    /// The id that belongs to a name here; `None` if there is no such account.
    pub fn id(&self, kind: AccountKind, name: &[u8]) -> Option<u32> {
        if name.is_empty() || name.len() > ACCOUNT_NAME_BYTES_MAX {
            return None;
        }
        remembered(&self.ids, (kind, name.to_vec()), || match kind {
            AccountKind::User => accounts::user_id(name),
            AccountKind::Group => accounts::group_id(name),
        })
    }
}

fn remembered<K: std::hash::Hash + Eq, V: Clone>(
    known: &Known<K, V>,
    key: (AccountKind, K),
    ask: impl FnOnce() -> Option<V>,
) -> Option<V> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = lock().get(&key) {
        return answer.clone();
    }
    // The lock is not held here, because a directory server may answer slowly.
    let answer = ask();
    let mut known = lock();
    if known.len() >= KEPT_MAX {
        known.clear();
    }
    known.insert(key, answer.clone());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superuser_needs_no_name_and_others_come_back() {
        let accounts = Accounts::default();
        for kind in [AccountKind::User, AccountKind::Group] {
            assert_eq!(accounts.name(kind, 0), None);
            assert_eq!(accounts.id(kind, b"root"), Some(0));
            assert_eq!(accounts.name(kind, 4_000_000_123), None);
            // The second answer is from memory.
            assert_eq!(accounts.id(kind, b"no such name"), None);
            assert_eq!(accounts.id(kind, b"no such name"), None);
        }
    }
}
