//! Whether a request was heard to its end.
//!
//! One that is answered before that, as a refused upload is, costs its connection: what is left of it
//! cannot be told from the next request. A client that is not told sends its next request on the same
//! connection, and loses it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderValue, Version, header::CONNECTION},
    response::Response,
};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

/// Remembers whether a request was read.
pub(super) struct Heard {
    version: Version,
    whole: Arc<AtomicBool>,
}

/// A body that tells when it was read.
struct Told {
    body: Incoming,
    whole: Arc<AtomicBool>,
}

impl Heard {
    /// The request, for whoever answers it.
    pub(super) fn of(request: hyper::Request<Incoming>) -> (Self, Request) {
        let whole = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let heard = Self { version: request.version(), whole: Arc::clone(&whole) };
        (heard, request.map(|body| Body::new(Told { body, whole })))
    }

    /// The answer, which says so if it is the last on its connection.
    pub(super) fn answered(self, mut response: Response) -> Response {
        let taken_over = response.status().is_informational();
        if self.version < Version::HTTP_2 && !taken_over && !self.whole.load(Ordering::Relaxed)
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl HttpBody for Told {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.whole.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
