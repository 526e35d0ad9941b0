//! The calls about the transfer buffer of the asked node. Decides nothing: the node interprets the calls.

use godwit_api::rest::{
    BufferChanged, BufferFiles, BufferView, DropFromBuffer, KeepInBuffer, RetryDrain,
};
use hyper::Method;

use crate::calls::{BASE, escaped_bytes};
use crate::error::ClientError;
use crate::http::Ask;
use crate::transport::Client;

/// Files on a page.
const PAGE_FILES: u32 = 1_000;

/// The calls about the transfer buffer.
#[derive(Clone, Copy)]
pub struct Buffer<'a>(&'a Client);

impl<'a> Buffer<'a> {
    /// The calls about the transfer buffer of this client's node.
    #[must_use]
    pub const fn of(client: &'a Client) -> Self {
        Self(client)
    }

    /// The figures of the buffer.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub fn view(&self) -> Result<BufferView, ClientError> {
        self.0.call(Ask::get(format!("{BASE}/buffer")))
    }

    /// A page of the files at and below `place`, behind `cursor`: of all in the buffer, or of those that wait for their export.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn files(
        &self,
        place: &[u8],
        cursor: Option<&[u8]>,
        waiting: bool,
    ) -> Result<BufferFiles, ClientError> {
        let mut path = format!(
            "{BASE}/buffer/files?place={}&limit={PAGE_FILES}",
            escaped_bytes(place)
        );
        if waiting {
            // An older node refuses the parameter.
            path.push_str("&waiting=true");
        }
        if let Some(cursor) = cursor {
            path.push_str("&cursor=");
            path.push_str(&escaped_bytes(cursor));
        }
        self.0.call(Ask::get(path))
    }

    /// Sets how long files stay.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn keep(&self, wish: &KeepInBuffer) -> Result<BufferChanged, ClientError> {
        let ask = Ask::new(Method::POST, format!("{BASE}/buffer/keep"));
        self.0.call(ask.document(wish))
    }

    /// Tries waiting files again.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn retry(&self, wish: &RetryDrain) -> Result<BufferChanged, ClientError> {
        let ask = Ask::new(Method::POST, format!("{BASE}/buffer/retry"));
        self.0.call(ask.document(wish))
    }

    /// Lets files go.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn drop_files(&self, wish: &DropFromBuffer) -> Result<BufferChanged, ClientError> {
        let ask = Ask::new(Method::POST, format!("{BASE}/buffer/drop"));
        self.0.call(ask.document(wish))
    }
}
