//! Owns answers that are too long for memory: they are read in chunks. Writes no files.

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::time::timeout;

use crate::error::ClientError;
use crate::http::{ANSWER_DEADLINE, Ask};
use crate::transport::Client;

/// An answer that is being read.
pub struct Download<'a> {
    client: &'a Client,
    body: Incoming,
}

impl Client {
    /// Opens an answer that is read in chunks.
    pub(crate) fn download(&self, path: String) -> Result<Download<'_>, ClientError> {
        let ask = Ask::get(path).header("accept", "text/plain, application/problem+json");
        let answer = self.block_on(self.in_time(self.target.open(ask)))?;
        Ok(Download {
            client: self,
            body: answer.into_body(),
        })
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        timeout(ANSWER_DEADLINE, call)
            .await
            .unwrap_or_else(|_late| {
                Err(ClientError::TimedOut {
                    node: self.node_name(),
                    seconds: ANSWER_DEADLINE.as_secs(),
                })
            })
    }
}

impl Download<'_> {
    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// The connection ended before the end of the answer, or the node sent nothing for too long.
    pub fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        let (client, body) = (self.client, &mut self.body);
        let next = async {
            loop {
                match body.frame().await {
                    None => return Ok(None),
                    Some(Ok(frame)) => {
                        // Trailers are ignored: they have no content.
                        if let Ok(chunk) = frame.into_data() {
                            return Ok(Some(chunk));
                        }
                    }
                    Some(Err(error)) => return Err(client.target.broken(&error)),
                }
            }
        };
        client.block_on(client.in_time(next))
    }
}
