//! An answer on its way inside: counted, cleaned, read where a budget needs it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::{
    http::body::BodyError,
    meter::Toll,
    usage::Reader,
    vault::{Redactor, Swap},
};

/// The body of an answer.
pub(super) struct Tap {
    inner: Incoming,
    toll: Arc<Toll>,
    redactor: Option<Redactor>,
    reader: Option<Reader>,
    ended: bool,
}

impl Tap {
    pub(super) fn new(
        inner: Incoming,
        toll: Arc<Toll>,
        swap: Option<Swap>,
        reader: Option<Reader>,
    ) -> Self {
        Self { inner, toll, redactor: swap.map(Redactor::new), reader, ended: false }
    }

    fn pass(&mut self, bytes: Bytes) -> Result<Bytes, BodyError> {
        self.toll.down(bytes.len() as u64)?;
        if let Some(reader) = &mut self.reader {
            reader.read(&bytes);
        }
        Ok(match &mut self.redactor {
            Some(redactor) => redactor.pass(&bytes),
            None => bytes,
        })
    }

    fn end(&mut self) -> Option<Bytes> {
        self.ended = true;
        drop(self.reader.take());
        self.redactor.take().map(Redactor::finish).filter(|it| !it.is_empty())
    }
}

impl Body for Tap {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(match frame {
            None => self.end().map(|rest| Ok(Frame::data(rest))),
            Some(Err(error)) => {
                self.end();
                Some(Err(error.into()))
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => Some(self.pass(bytes).map(Frame::data)),
                // Trailers could be read as headers by whoever joins them.
                Err(_) => Some(Ok(Frame::data(Bytes::new()))),
            },
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.redactor.is_none() && self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.redactor.as_ref().is_some_and(Redactor::changes_length) {
            return SizeHint::default();
        }
        self.inner.size_hint()
    }
}
