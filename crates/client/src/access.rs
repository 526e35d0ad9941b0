//! The calls about access rules.
//! Decides nothing: the node interprets the rules.

use godwit_api::rest::{AccessView, NewAccess};
use hyper::Method;

use crate::calls::escaped;
use crate::error::ClientError;
use crate::transport::Client;

/// The calls about access rules.
#[derive(Clone, Copy)]
pub struct AccessRules<'a>(&'a Client);

impl Client {
    /// The calls about access rules.
    #[must_use]
    pub fn access(&self) -> AccessRules<'_> {
        AccessRules(self)
    }
}

impl AccessRules<'_> {
    /// All rules: from the file in the node's home, and from its state.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self) -> Result<Vec<AccessView>, ClientError> {
        self.0.get("/access")
    }

    /// Adds or replaces a rule of the state.
    ///
    /// # Errors
    /// As [`AccessRules::list`].
    pub fn put(&self, id: &str, rule: &NewAccess) -> Result<AccessView, ClientError> {
        let path = format!("/access/{}", escaped(id));
        self.0.with(Method::PUT, &path, rule)
    }

    /// Removes a rule of the state.
    ///
    /// # Errors
    /// As [`AccessRules::list`].
    pub fn remove(&self, id: &str) -> Result<(), ClientError> {
        self.0.delete(&format!("/access/{}", escaped(id)))
    }
}
