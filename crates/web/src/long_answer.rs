//! Owns the turns for answers of many megabytes, such as all lines of a log. A client that does not read keeps its answer in memory.
//! Makes no answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};

use crate::problem::ApiError;
use crate::turns::{self, Turn, Turns};

/// Long answers at once, of all users and of one user. Each is about 30 MiB at most.
const ALL_MAX: usize = 16;
const OF_HOLDER_MAX: usize = 4;

/// Turns for users that have one already. So up to eleven users leave one turn for another user.
const FURTHER_MAX: usize = 4;

/// The turns at long answers.
pub(crate) struct LongAnswers(Turns);

impl LongAnswers {
    pub(crate) fn new() -> Self {
        Self(Turns::new(ALL_MAX, OF_HOLDER_MAX).keeping(FURTHER_MAX))
    }

    /// Waits for a turn, before the answer is made.
    ///
    /// # Errors
    /// No turn came in time.
    pub(crate) async fn turn(&self) -> Result<Turn, ApiError> {
        self.0.take(turns::holder()).await
    }
}

/// Wraps the answer so that it holds its turn until all of it is sent.
pub(crate) fn until_gone(answer: Response, turn: Turn) -> Response {
    answer.map(|body| Body::new(Held { body, _turn: turn }))
}

struct Held {
    body: Body,
    _turn: Turn,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
