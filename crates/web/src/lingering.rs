//! Drains bodies that no handler read, for a limited time, so that the answer reaches a client that still sends.
//! Reads nothing that a handler wants.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::timeout;

use crate::extract::BODY_BYTES_MAX;

/// A body up to this length is drained silently; after a longer one the connection ends.
const SMALL_BYTES: u64 = 64 << 10;

/// How long a body is drained; a connection without rights ends soon after.
const LINGER: Duration = Duration::from_secs(5);

/// The body of a request as handlers see it.
pub(crate) struct Lingering {
    body: Option<Incoming>,
    ended: Arc<AtomicBool>,
    /// False where draining is not needed. HTTP/2 resets the stream of an unread body, and a client that awaits `100 Continue` sends none.
    lingers: bool,
}

/// Describes what the answer must say about the body of its request.
pub(crate) struct Leftover {
    ended: Arc<AtomicBool>,
    /// The connection is HTTP/1, and the body may be large.
    closes: bool,
}

/// Divides a request into the part for handlers and the part for its answer.
pub(crate) fn linger(request: Request<Incoming>) -> (Request<Lingering>, Leftover) {
    let is_first = request.version() != Version::HTTP_2;
    let waits = request.headers().contains_key(EXPECT);
    let small = length_of(request.headers()).is_some_and(|length| length <= SMALL_BYTES);
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let leftover = Leftover {
        ended: Arc::clone(&ended),
        closes: is_first && (waits || !small),
    };
    let request = request.map(|body| Lingering {
        body: Some(body),
        ended,
        lingers: is_first && !waits,
    });
    (request, leftover)
}

/// The length that the head promises.
pub(crate) fn length_of(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

impl Leftover {
    /// Announces the end of the connection, if the body was left unread and is not small.
    pub(crate) fn announce_end<B>(&self, response: &mut Response<B>) {
        if self.closes && !self.ended.load(Ordering::SeqCst) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let poll = Pin::new(body).poll_frame(context);
        if matches!(poll, Poll::Ready(None | Some(Err(_)))) {
            self.ended.store(true, Ordering::SeqCst);
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else {
            self.ended.store(true, Ordering::SeqCst);
            return;
        };
        if self.lingers && !self.ended.load(Ordering::SeqCst) {
            // A runtime that ends drops it with the connection.
            tokio::spawn(timeout(LINGER, read_away(body)));
        }
    }
}

/// Reads and discards.
async fn read_away(mut body: Incoming) {
    let mut left = BODY_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        left = match left.checked_sub(bytes) {
            Some(left) => left,
            None => return,
        };
    }
}
