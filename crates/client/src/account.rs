//! The calls about the caller's own account: password, sessions and tokens.
//! Reads no password: the caller has it.

use godwit_api::rest::{AccountView, NewPassword};
use hyper::Method;

use crate::http::Ask;
use crate::{Client, ClientError};

/// The calls about the caller's own account.
#[derive(Clone, Copy)]
pub struct Account<'a>(&'a Client);

impl Client {
    /// The calls about the caller's own account.
    #[must_use]
    pub fn account(&self) -> Account<'_> {
        Account(self)
    }
}

impl Account<'_> {
    /// The account, with its sessions, log-ins and tokens that are good now.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn show(&self) -> Result<AccountView, ClientError> {
        self.0.get("/account")
    }

    /// Changes the password. All other sessions and log-ins end.
    ///
    /// # Errors
    /// As [`Account::show`]; also if the current password is wrong, or the new one is too short.
    pub fn change_password(&self, change: &NewPassword) -> Result<(), ClientError> {
        let ask = Ask::new(Method::PUT, "/api/v1/account/password").document(change);
        self.0.send(ask)
    }

    /// Ends all sessions and log-ins except the caller's; if `made` is set, all tokens as well.
    ///
    /// # Errors
    /// As [`Account::show`].
    pub fn end_others(&self, made: bool) -> Result<(), ClientError> {
        self.0.delete(&format!("/account/tokens?made={made}"))
    }
}
