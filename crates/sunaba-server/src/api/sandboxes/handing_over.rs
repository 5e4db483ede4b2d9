//! An answer that is handed over by being read.
//!
//! All of it but the last byte goes out first; then the messages in it are recorded as handed over, and
//! only then the last byte follows. A worker that is gone by then has not got them, and one that has
//! read the whole answer will not get them again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};

/// How far the answer has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Opening,
    Recording,
    Over,
}

/// See the module.
pub(super) struct HandingOver {
    rest: Bytes,
    record: BoxFuture<'static, Result<(), sunaba_store::Error>>,
    step: Step,
}

impl HandingOver {
    pub(super) fn new(text: Vec<u8>, record: BoxFuture<'static, Result<(), sunaba_store::Error>>) -> Self {
        Self { rest: text.into(), record, step: Step::Opening }
    }
}

impl Body for HandingOver {
    type Data = Bytes;
    type Error = sunaba_store::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, sunaba_store::Error>>> {
        let this = self.get_mut();
        match this.step {
            Step::Opening => {
                this.step = Step::Recording;
                let opening = this.rest.split_to(this.rest.len().saturating_sub(1));
                Poll::Ready(Some(Ok(Frame::data(opening))))
            }
            Step::Recording => {
                let recorded = ready!(this.record.as_mut().poll(cx));
                this.step = Step::Over;
                let last = std::mem::take(&mut this.rest);
                Poll::Ready(Some(recorded.map(|()| Frame::data(last))))
            }
            Step::Over => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.step == Step::Over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
