//! Owns queries to the system about users and groups: the name of an id, and the id of a name, from any database that the
//! system uses. Caches nothing: each call asks the system again, and the system may ask a server.

#![allow(
    unsafe_code,
    reason = "the C library alone knows which databases there are; rustix has no such calls"
)]

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Largest buffer that one answer of the C library may need; a group can have thousands of members.
const BUFFER_BYTES_MAX: usize = 4 << 20;
const BUFFER_BYTES: usize = 4096;

/// Most users that are listed; a system with more may have a member that is not seen.
const USERS_MAX: usize = 1 << 20;

/// The name of a user; `None` if there is none, or the name is unknown.
pub fn user_name(uid: u32) -> Option<Vec<u8>> {
    ask(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        let errno = unsafe {
            libc::getpwuid_r(
                uid,
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        answer(errno, found, |found| {
            // SAFETY: a found entry is filled in, in our buffer.
            let name = unsafe { (*found).pw_name };
            // SAFETY: the name lies in our buffer, or is static.
            unsafe { name_at(name) }
        })
    })
}

/// The name of a group; `None` if there is none, or the name is unknown.
pub fn group_name(gid: u32) -> Option<Vec<u8>> {
    of_group(gid, |found| {
        // SAFETY: a found entry is filled in, in our buffer.
        let name = unsafe { (*found).gr_name };
        // SAFETY: the name lies in our buffer, or is static.
        unsafe { name_at(name) }
    })
}

/// Asks for the entry of a group. It is valid while `read` runs.
fn of_group<T>(gid: u32, read: impl Fn(*mut libc::group) -> Option<T>) -> Option<T> {
    ask(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        let errno = unsafe {
            libc::getgrgid_r(
                gid,
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        answer(errno, found, &read)
    })
}

/// Whether a user is the only member of a group, as far as the system lists users and groups; false if it does not.
pub fn is_alone_in(uid: u32, gid: u32) -> bool {
    let (Some(name), Some(members)) = (user_name(uid), group_members(gid)) else {
        return false;
    };
    members.iter().all(|member| *member == name)
        && users_with_group(gid).is_some_and(|users| users.iter().all(|user| *user == uid))
}

/// The names in the list of a group; `None` if there is no such group.
fn group_members(gid: u32) -> Option<Vec<Vec<u8>>> {
    of_group(gid, |found| {
        // SAFETY: a found entry is filled in, in our buffer.
        let mut at = unsafe { (*found).gr_mem };
        let mut members = Vec::new();
        while !at.is_null() {
            // SAFETY: the list ends in a null pointer, which ends the loop.
            let name = unsafe { *at };
            if name.is_null() {
                break;
            }
            // SAFETY: the name lies in our buffer, or is static.
            members.extend(unsafe { name_at(name) });
            // SAFETY: the entry at `at` was not the last one.
            at = unsafe { at.add(1) };
        }
        Some(members)
    })
}

/// The users whose own group is this one; `None` if the system does not list its users.
fn users_with_group(gid: u32) -> Option<Vec<u32>> {
    /// The list has one position in a process.
    static LIST: Mutex<()> = Mutex::new(());
    let _only = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut users = Vec::new();
    // SAFETY: only this function uses the list, under its lock.
    unsafe { libc::setpwent() };
    let mut is_whole = false;
    for _ in 0..USERS_MAX {
        // SAFETY: the pointer is this thread's.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *errno = 0 };
        // SAFETY: only this function uses the list, under its lock.
        let entry = unsafe { libc::getpwent() };
        if entry.is_null() {
            // SAFETY: as above.
            let errno = unsafe { *errno };
            is_whole = [0, libc::ENOENT, libc::ESRCH].contains(&errno);
            break;
        }
        // SAFETY: the entry is valid until the next call.
        if unsafe { (*entry).pw_gid } == gid {
            // SAFETY: as above.
            users.push(unsafe { (*entry).pw_uid });
        }
    }
    // SAFETY: only this function uses the list, under its lock.
    unsafe { libc::endpwent() };
    is_whole.then_some(users)
}

/// The id of a user; `None` if there is no such user, or the id is unknown.
pub fn user_id(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    ask(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, the name ends in a zero, and the length is the buffer's.
        let errno = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: a found entry is filled in, in our buffer.
        answer(errno, found, |found| unsafe { Some((*found).pw_uid) })
    })
}

/// The id of a group; `None` if there is no such group, or the id is unknown.
pub fn group_id(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    ask(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, the name ends in a zero, and the length is the buffer's.
        let errno = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: a found entry is filled in, in our buffer.
        answer(errno, found, |found| unsafe { Some((*found).gr_gid) })
    })
}

/// Result of one call.
enum Answer<T> {
    Found(T),
    None,
    /// The buffer was too small.
    MoreRoom,
}

fn answer<E, T>(errno: i32, found: *mut E, read: impl FnOnce(*mut E) -> Option<T>) -> Answer<T> {
    if errno == libc::ERANGE {
        return Answer::MoreRoom;
    }
    if errno != 0 || found.is_null() {
        return Answer::None;
    }
    read(found).map_or(Answer::None, Answer::Found)
}

/// Repeats the call with a larger buffer while the buffer is too small, up to a bound.
fn ask<T>(mut call: impl FnMut(&mut [u8]) -> Answer<T>) -> Option<T> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match call(&mut buffer) {
            Answer::Found(found) => return Some(found),
            Answer::None => return None,
            Answer::MoreRoom if buffer.len() >= BUFFER_BYTES_MAX => return None,
            Answer::MoreRoom => buffer.resize(buffer.len() * 4, 0),
        }
    }
}

/// # Safety
/// `name` is null or a string that ends in a zero.
unsafe fn name_at(name: *const libc::c_char) -> Option<Vec<u8>> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_a_name_and_an_id() {
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!(user_id(b"root"), Some(0));
        assert_eq!(group_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!(group_id(b"root"), Some(0));
    }

    #[test]
    fn a_user_is_not_alone_in_a_group_of_others() {
        let nobody = user_id(b"nobody").unwrap();
        assert!(!is_alone_in(nobody, 0), "root is in it");
        assert!(!is_alone_in(0, 4_000_000_123));
        assert!(users_with_group(0).unwrap().contains(&0));
    }

    #[test]
    fn unknown_accounts_are_not_found() {
        assert_eq!(user_name(4_000_000_123), None);
        assert_eq!(group_name(4_000_000_123), None);
        for name in [&b"no such user"[..], b"", b"zero\0inside"] {
            assert_eq!(user_id(name), None);
            assert_eq!(group_id(name), None);
        }
    }
}
