//! Which files an event stands for.
//!
//! A step says after which event the files were like it; it comes a moment later, with an event of its
//! own. So the files at a place of the log are those of the last step that belongs to an event up to there,
//! also when it was carried by a later one. Before the first step they are those of the commit that the sandbox
//! started from.

use http::StatusCode;
use serde::Serialize;
use sunaba_store::StepAt;
use sunaba_types::Sandbox;
use utoipa::ToSchema;

use crate::extract::Params;
use crate::{ApiError, AppState};

/// Steps that may come late one after the other.
const LATE_MAX: usize = 100;
const EVENT_ID_CHARS: usize = 100;

/// A place in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    /// The end of it.
    Latest,
    /// Before anything happened.
    Base,
    /// After so many events.
    Seq(i64),
    /// After this event.
    Event(String),
}

impl At {
    /// Reads a parameter or a field: `latest`, `base`, a place, or an event's id.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "latest" => Ok(Self::Latest),
            "base" => Ok(Self::Base),
            "" => Err("must be `latest`, `base`, the place of an event or its id"),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let place = digits.parse().ok().filter(|seq| *seq >= 1);
                place.map(Self::Seq).ok_or("must be the place of an event: 1 or more")
            }
            id if id.chars().count() <= EVENT_ID_CHARS => Ok(Self::Event(id.to_owned())),
            _ => Err("is longer than an event's id"),
        }
    }

    /// The place that a parameter names.
    pub(crate) fn param(params: &mut Params, name: &str) -> Option<Self> {
        params.parsed(name, |text| Self::parse(&text))
    }
}

/// Files at one moment of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Moment {
    /// The tree of files, or the commit that the sandbox started from or came to.
    pub(crate) tree: Option<String>,
    /// The place of the event that told of it; none for where the sandbox started and what it came to.
    pub(crate) seq: Option<i64>,
    /// That event's id.
    pub(crate) event_id: Option<String>,
}

/// The files at a place.
pub(crate) async fn resolve(state: &AppState, sandbox: &Sandbox, at: &At) -> Result<Moment, ApiError> {
    let found = match at {
        At::Base => None,
        At::Latest => {
            let head = state.store().log_head(&sandbox.id).await?;
            state.store().step_before(&sandbox.id, head.last_seq).await?
        }
        At::Seq(seq) => {
            let last = state.store().log_head(&sandbox.id).await?.last_seq;
            if *seq > last {
                let words = format!("the log ends at event {last}; there is no event {seq}");
                return Err(ApiError::new(StatusCode::NOT_FOUND, "event_not_found", words));
            }
            step_at(state, sandbox, *seq).await?
        }
        At::Event(id) => {
            let seq = state.store().find_seq(&sandbox.id, id).await?;
            let seq = seq.ok_or_else(|| ApiError::not_found("event", id))?;
            step_at(state, sandbox, seq).await?
        }
    };
    match found {
        Some(StepAt { seq, event_id, step }) => {
            Ok(Moment { tree: Some(step.tree), seq: Some(seq), event_id: Some(event_id) })
        }
        None => Ok(Moment { tree: Some(base(sandbox)?), seq: None, event_id: None }),
    }
}

/// The commit that a sandbox started from.
pub(crate) fn base(sandbox: &Sandbox) -> Result<String, ApiError> {
    sandbox.base_commit.clone().ok_or_else(|| {
        let words =
            "this sandbox has told of no files: it has no repository of ours, or was not brought up yet";
        ApiError::new(StatusCode::NOT_FOUND, "no_steps", words)
    })
}

async fn step_at(state: &AppState, sandbox: &Sandbox, seq: i64) -> Result<Option<StepAt>, ApiError> {
    let mut found = None;
    let mut place = seq;
    for _ in 0..LATE_MAX {
        let Some(next) = state.store().step_after(&sandbox.id, place).await? else { break };
        let Some(belongs_to) = &next.step.event_id else { break };
        match state.store().find_seq(&sandbox.id, belongs_to).await? {
            Some(of) if of <= seq => {
                place = next.seq;
                found = Some(next);
            }
            _ => break,
        }
    }
    match found {
        Some(late) => Ok(Some(late)),
        None => Ok(state.store().step_before(&sandbox.id, seq).await?),
    }
}

/// A path within a repository.
pub(crate) fn path_param(params: &mut Params) -> Option<String> {
    params.parsed("path", |text| {
        let path = text.trim_end_matches('/').to_owned();
        let strange = |part: &str| part.is_empty() || part == "." || part == "..";
        if !path.is_empty() && path.split('/').any(strange) {
            return Err("must be a path from the top of the repository, without `.` and `..`");
        }
        Ok(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_in_four_ways() {
        assert_eq!(At::parse("latest"), Ok(At::Latest));
        assert_eq!(At::parse("base"), Ok(At::Base));
        assert_eq!(At::parse("12"), Ok(At::Seq(12)));
        assert_eq!(At::parse("0198-x"), Ok(At::Event("0198-x".to_owned())));
        for bad in ["", "0", "99999999999999999999"] {
            assert!(At::parse(bad).is_err(), "{bad}");
        }
        assert!(At::parse(&"x".repeat(101)).is_err());
    }
}
