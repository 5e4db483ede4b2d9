//! One model call, tried again within bounds, given up at once when the agent is to stop.

use std::time::Duration;

use sunaba_llm::{Accumulator, Error, MessagesRequest, Reply, Thinking};
use uuid::Uuid;

use super::RetryPolicy;
use super::run::Run;
use super::steering::Stop;
use crate::{AgentEvent, ErrorClass, RunError, StreamErrorType};

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum NoReply {
    /// The agent is to stop.
    Stopped(Stop),
    /// It failed for good.
    Failed(RunError),
    /// The conversation is larger than the model takes.
    TooLong(RunError),
}

impl Run {
    /// Sends the conversation and waits for the whole answer.
    ///
    /// A broken answer is dropped whole: nothing of it was shown or run, so the same request can go again.
    pub(super) async fn call_model(&mut self, mut request: MessagesRequest) -> Result<Reply, NoReply> {
        let mut attempt = 1;
        loop {
            let mut accumulator = Accumulator::default();
            let answer = tokio::select! {
                biased;
                stop = self.steering.stop_signal() => Err(stop),
                answer = self.client.complete(&request, &mut accumulator) => Ok(answer),
            };
            self.usage.add(accumulator.usage());
            let error = match answer {
                Err(stop) => return Err(NoReply::Stopped(stop)),
                Ok(Ok(reply)) => {
                    self.usage.add(reply.usage);
                    return Ok(reply);
                }
                Ok(Err(error)) => error,
            };
            if let Some(thinking) = less_thinking(request.thinking, &error) {
                self.tell_stream_error(&error, accumulator.has_begun(), true);
                self.thinking = thinking;
                request.thinking = thinking;
                continue;
            }
            let pause = self.config.retry.pause(attempt, &error);
            self.tell_stream_error(&error, accumulator.has_begun(), pause.is_some());
            let Some(pause) = pause else {
                let told = run_error(&error);
                return Err(if is_too_long(&error) { NoReply::TooLong(told) } else { NoReply::Failed(told) });
            };
            tokio::select! {
                biased;
                stop = self.steering.stop_signal() => return Err(NoReply::Stopped(stop)),
                () = tokio::time::sleep(pause) => attempt += 1,
            }
        }
    }

    fn tell_stream_error(&self, error: &Error, had_begun: bool, retrying: bool) {
        let error_type = if had_begun { StreamErrorType::Unknown } else { StreamErrorType::StreamInit };
        self.events.emit(AgentEvent::StreamError {
            error: in_full(error),
            error_type,
            turn: self.turns,
            retrying,
        });
    }
}

impl RetryPolicy {
    /// How long to wait before the next try; none when there is to be none.
    fn pause(&self, attempt: u32, error: &Error) -> Option<Duration> {
        if !error.is_retryable() || attempt >= self.max_attempts {
            return None;
        }
        match error.retry_after() {
            Some(asked) if asked > self.max_retry_after => None,
            Some(asked) => Some(asked + a_tenth_at_most(asked)),
            None => {
                let doubled = self.base_delay.saturating_mul(1 << (attempt - 1).min(16));
                Some(spread(doubled.min(self.max_delay)))
            }
        }
    }
}

/// Between half of it and the whole, so that many agents do not come back in step.
fn spread(delay: Duration) -> Duration {
    delay.mul_f64(0.5 + chance() / 2.0)
}

/// More than was asked for, never less, for the same reason.
fn a_tenth_at_most(asked: Duration) -> Duration {
    asked.mul_f64(chance() / 10.0)
}

/// Anything from 0 to 1.
fn chance() -> f64 {
    f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// What to ask for when a model refuses the way of thinking that it was asked for; none when that is not the trouble.
///
/// Which models think, and how, changes with every generation and vendor; the refusal itself is the one sure sign.
fn less_thinking(asked: Option<Thinking>, error: &Error) -> Option<Option<Thinking>> {
    let Error::Api { status: Some(400), message, .. } = error else { return None };
    let message = message.to_ascii_lowercase();
    if !message.contains("thinking") {
        return None;
    }
    match asked? {
        Thinking::Enabled { .. } if message.contains("adaptive") => Some(Some(Thinking::Adaptive)),
        Thinking::Enabled { .. } | Thinking::Adaptive => Some(None),
    }
}

/// Whether the request was refused for its length. There is no code for it; these are the words of those who speak
/// this API.
fn is_too_long(error: &Error) -> bool {
    let Error::Api { status: Some(400 | 413), message, .. } = error else { return false };
    let message = message.to_ascii_lowercase();
    ["too long", "context limit", "context length", "context window"]
        .iter()
        .any(|words| message.contains(words))
}

/// The error with its causes.
fn in_full(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    words
}

pub(super) fn run_error(error: &Error) -> RunError {
    let class = match error {
        Error::BaseUrl { .. } | Error::ApiKey | Error::Encode(_) => ErrorClass::Configuration,
        Error::Connect { .. } | Error::Transport(_) | Error::Timeout { .. } | Error::Truncated => {
            ErrorClass::Network
        }
        Error::Malformed(_) | Error::TooLarge { .. } => ErrorClass::Protocol,
        Error::Api { status, kind, .. } => api_class(*status, kind),
    };
    RunError { class, message: in_full(error) }
}

fn api_class(status: Option<u16>, kind: &str) -> ErrorClass {
    match (status, kind) {
        (Some(429), _) | (None, "rate_limit_error") => ErrorClass::RateLimited,
        (Some(401 | 403), _) | (None, "authentication_error" | "permission_error") => ErrorClass::Auth,
        (Some(408 | 500..=599), _) | (None, "overloaded_error" | "api_error" | "timeout_error") => {
            ErrorClass::Overloaded
        }
        _ => ErrorClass::InvalidRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<Duration>) -> Error {
        Error::Api {
            status: Some(status),
            kind: "x".to_owned(),
            message: String::new(),
            retry_after,
            should_retry: None,
        }
    }

    #[test]
    fn pauses_grow_stay_bounded_and_end() {
        let policy = RetryPolicy { max_attempts: 10, ..RetryPolicy::default() };
        for attempt in 1..10 {
            let pause = policy.pause(attempt, &refused(529, None)).unwrap();
            let whole = policy.base_delay.saturating_mul(1 << (attempt - 1)).min(policy.max_delay);
            assert!(pause >= whole / 2 && pause <= whole, "attempt {attempt}: {pause:?}");
        }
        assert_eq!(policy.pause(10, &refused(529, None)), None);
        assert_eq!(policy.pause(1, &refused(400, None)), None);
    }

    #[test]
    fn the_other_side_may_ask_for_a_pause_but_not_for_any() {
        let policy = RetryPolicy::default();
        let asked = Duration::from_secs(7);
        let pause = policy.pause(1, &refused(429, Some(asked))).unwrap();
        assert!(pause >= asked && pause <= asked + asked / 10, "{pause:?}");
        assert_eq!(policy.pause(1, &refused(429, Some(Duration::from_secs(3600)))), None);
    }
}
