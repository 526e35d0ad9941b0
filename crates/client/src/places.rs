//! The calls about entries at places: places at the asked node, and at the sites that it knows. Decides nothing: the
//! node interprets the calls.

use std::time::Duration;

use godwit_api::ask::{Cleaned, EntryView, ExportRoom, Listing, Removed};
use godwit_api::rest::{CleanEntries, NewDirectory, RemoveEntry, RenameEntry};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::calls::{BASE, escaped_bytes};
use crate::error::ClientError;
use crate::http::Ask;
use crate::transport::Client;

/// Number of entries on a page.
const PAGE_ENTRIES: u32 = 1_000;

/// Deadline for work that depends on the size of a tree. A caller that stops waiting earlier closes the connection,
/// which ends the work.
const WORK_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// The calls about entries at places.
#[derive(Clone, Copy)]
pub struct Places<'a>(&'a Client);

impl Client {
    /// The calls about entries at places.
    #[must_use]
    pub fn places(&self) -> Places<'_> {
        Places(self)
    }
}

impl Places<'_> {
    /// A page of the directory at `place`, after the name `cursor`.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn list(&self, place: &[u8], cursor: Option<&[u8]>) -> Result<Listing, ClientError> {
        let mut query = format!("place={}&limit={PAGE_ENTRIES}", escaped_bytes(place));
        if let Some(cursor) = cursor {
            query.push_str("&cursor=");
            query.push_str(&escaped_bytes(cursor));
        }
        self.get("", &query)
    }

    /// The entry at `place`.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn stat(&self, place: &[u8]) -> Result<EntryView, ClientError> {
        self.get("/stat", &format!("place={}", escaped_bytes(place)))
    }

    /// The exports of a site, or only the export of the place, with their free space.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn space(&self, place: &[u8]) -> Result<Vec<ExportRoom>, ClientError> {
        self.get("/space", &format!("place={}", escaped_bytes(place)))
    }

    /// The exports of a site, as the node with this identity lists them. The node is the first of the site, or an independent
    /// one.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn space_at(&self, site: &str, identity: &str) -> Result<Vec<ExportRoom>, ClientError> {
        let (place, identity) = (format!("{site}:/"), escaped_bytes(identity.as_bytes()));
        let place = escaped_bytes(place.as_bytes());
        self.get("/space", &format!("place={place}&identity={identity}"))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn make_directory(&self, new: &NewDirectory) -> Result<EntryView, ClientError> {
        self.post("/mkdir", new)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn remove(&self, wish: &RemoveEntry) -> Result<Removed, ClientError> {
        self.post("/remove", wish)
    }

    /// Renames an entry.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn rename(&self, wish: &RenameEntry) -> Result<EntryView, ClientError> {
        self.post("/rename", wish)
    }

    /// Removes unused temporary files.
    ///
    /// # Errors
    /// As [`Places::list`].
    pub fn clean(&self, wish: &CleanEntries) -> Result<Cleaned, ClientError> {
        self.post("/clean", wish)
    }

    fn get<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<T, ClientError> {
        let path = format!("{BASE}/places{path}?{query}");
        self.0.call(Ask::get(path).within(WORK_DEADLINE))
    }

    fn post<D: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        document: &D,
    ) -> Result<T, ClientError> {
        let ask = Ask::new(Method::POST, format!("{BASE}/places{path}"));
        self.0.call(ask.document(document).within(WORK_DEADLINE))
    }
}
