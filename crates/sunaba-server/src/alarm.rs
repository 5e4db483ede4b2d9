//! One timer for a connection instead of one for each of its requests.
//!
//! hyper wants to be woken when the next request's head takes too long, and asks for a new timer with every request.
//! A timer costs an allocation of its own and two visits to the runtime's wheel, which for a small request is a good
//! part of all it costs. Here a connection has one, which is moved on only when it rings.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use tokio::time::Instant;

/// A connection's timer. The moments that are waited for only ever grow.
#[derive(Debug, Clone)]
pub(crate) struct Alarm(Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>);

impl Alarm {
    /// One that rings for the first time no later than the first moment that will be waited for.
    pub(crate) fn new(first: Duration) -> Self {
        Self(Arc::new(Mutex::new(Box::pin(tokio::time::sleep(first)))))
    }
}

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Due { alarm: self.clone(), at: Instant::now() + duration })
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Due { alarm: self.clone(), at: Instant::from_std(deadline) })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

/// A moment that is waited for.
#[derive(Debug)]
struct Due {
    alarm: Alarm,
    at: Instant,
}

impl Sleep for Due {}

impl Future for Due {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            ready!(alarm.as_mut().poll(cx));
            if self.at <= Instant::now() {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use sunaba_testkit::within;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn each_wait_takes_its_own_time() {
        let alarm = Alarm::new(WINDOW);
        for _ in 0..3 {
            // One that is given up leaves nothing behind.
            let _ = alarm.sleep(WINDOW).now_or_never();
            let started = Instant::now();
            within("the alarm rings", alarm.sleep(WINDOW)).await;
            assert!(started.elapsed() >= WINDOW, "a whole one, from its own start");
        }
    }

    #[tokio::test]
    async fn an_alarm_that_rang_while_nobody_waited_is_set_again() {
        let alarm = Alarm::new(Duration::ZERO);
        let started = Instant::now();
        within("the alarm rings", alarm.sleep(WINDOW)).await;
        assert!(started.elapsed() >= WINDOW);
    }
}
