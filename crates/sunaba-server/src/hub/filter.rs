//! What a subscriber wants to see.

use serde::Serialize;
use sunaba_types::topic;

use super::Frame;

/// AND across the keys, membership within one; an empty list wants everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Published names, as the client wrote them.
    pub event_types: Vec<String>,
    /// Kinds of entity.
    pub entity_types: Vec<String>,
    /// Ids of entities.
    pub entity_ids: Vec<String>,
    #[serde(skip)]
    plain_types: Vec<String>,
}

impl Filters {
    /// Filters by these lists.
    pub fn new(event_types: Vec<String>, entity_types: Vec<String>, entity_ids: Vec<String>) -> Self {
        let mut filters = Self { entity_types, entity_ids, ..Self::default() };
        filters.set_event_types(event_types);
        filters
    }

    /// Replaces the wanted names.
    pub fn set_event_types(&mut self, event_types: Vec<String>) {
        self.plain_types = event_types.iter().map(|name| topic::normalise(name)).collect();
        self.event_types = event_types;
    }

    pub(crate) fn wants(&self, frame: &Frame) -> bool {
        (self.plain_types.is_empty()
            || self.plain_types.iter().any(|pattern| topic::covers(pattern, frame.plain_type())))
            && (self.entity_types.is_empty() || has(&self.entity_types, frame.entity_type()))
            && (self.entity_ids.is_empty() || has(&self.entity_ids, frame.entity_id()))
    }
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|item| item == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(types: &[&str], kinds: &[&str], ids: &[&str]) -> bool {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        Filters::new(owned(types), owned(kinds), owned(ids)).wants(&Frame::at(1))
    }

    #[test]
    fn keys_are_anded_and_lists_are_memberships() {
        assert!(wants(&[], &[], &[]));
        assert!(wants(&["SANDBOX_AGENT_TOOL_USE"], &[], &[]));
        assert!(wants(&["x", "sandbox_agent.*"], &["task", "sandbox"], &["s1"]));
        assert!(!wants(&["SANDBOX_AGENT_TOOL_USE"], &["task"], &[]));
        assert!(!wants(&[], &[], &["s2"]));
    }
}
