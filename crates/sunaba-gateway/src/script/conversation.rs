//! A request to a model, in words that are the same for every dialect.

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) by: Speaker,
    /// The words of it.
    pub(crate) text: String,
    /// The results of tools in it.
    pub(crate) tool_results: String,
}

/// A tool that the request offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    /// The properties of its input, by name.
    pub(crate) properties: serde_json::Map<String, serde_json::Value>,
    pub(crate) kind: ToolKind,
    /// The group of tools it belongs to, where the dialect has such groups.
    pub(crate) namespace: Option<String>,
}

/// How a tool takes its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// As an object.
    Function,
    /// As a text.
    Text,
    /// The vendor's own shell, which the client runs.
    LocalShell,
}

/// Everything that a script may look at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) model: String,
    pub(crate) system: String,
    /// What was said; empty where only an outline was read.
    pub(crate) messages: Vec<Said>,
    /// How many messages there are.
    pub(crate) message_count: usize,
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) streamed: bool,
    /// Whether a streamed answer tells its usage.
    pub(crate) usage_in_stream: bool,
    pub(crate) size_bytes: usize,
}

impl Conversation {
    /// The conversation as it was before message number `end`.
    pub(crate) fn before(&self, end: usize) -> View<'_> {
        View { conversation: self, messages: &self.messages[..end.min(self.messages.len())] }
    }

    /// The whole of it.
    pub(crate) fn view(&self) -> View<'_> {
        self.before(self.messages.len())
    }
}

/// A conversation up to some message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) conversation: &'a Conversation,
    messages: &'a [Said],
}

impl View<'_> {
    /// How often the model has spoken.
    pub(crate) fn assistant_count(&self) -> usize {
        self.messages.iter().filter(|said| said.by == Speaker::Assistant).count()
    }

    /// The first words of the user.
    pub(crate) fn prompt(&self) -> &str {
        let mut words = self.messages.iter().filter(|said| said.by == Speaker::User && !said.text.is_empty());
        words.next().map_or("", |said| said.text.as_str())
    }

    /// The last words of the user.
    pub(crate) fn last_message(&self) -> &str {
        let mut words = self.messages.iter().rev();
        let found = words.find(|said| said.by == Speaker::User && !said.text.is_empty());
        found.map_or("", |said| said.text.as_str())
    }

    /// Whether what the user said since the model last spoke holds this text.
    pub(crate) fn last_user_contains(&self, text: &str) -> bool {
        self.latest().any(|said| said.text.contains(text))
    }

    /// Whether a tool's result since the model last spoke holds this text.
    pub(crate) fn tool_result_contains(&self, text: &str) -> bool {
        self.latest().any(|said| said.tool_results.contains(text))
    }

    /// Whether any part of the request holds this text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let said = |said: &Said| said.text.contains(text) || said.tool_results.contains(text);
        self.conversation.system.contains(text) || self.messages.iter().any(said)
    }

    fn latest(&self) -> impl Iterator<Item = &Said> {
        self.messages.iter().rev().take_while(|said| said.by == Speaker::User)
    }
}
