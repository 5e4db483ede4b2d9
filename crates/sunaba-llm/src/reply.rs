//! Puts the pieces of a streamed answer together.
//!
//! Strict about order, because a block that is put together wrongly would be executed: a piece for a block
//! that is not open, a block out of turn or an end before the beginning is [`Error::Malformed`].

use serde_json::{Map, Value};

use crate::{BlockDelta, ContentBlock, Error, StreamEvent, Usage};

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The answer's id.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// What it said, in its order.
    pub content: Vec<ContentBlock>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
    /// What the call used.
    pub usage: Usage,
    /// Ids of tool requests whose arguments are not a JSON object, usually because the answer was cut at
    /// its token limit. Their `input` is empty and they must not be run.
    pub unusable_tool_inputs: Vec<String>,
}

/// An answer in the making.
#[derive(Debug, Default)]
pub struct Accumulator {
    id: String,
    model: String,
    content: Vec<ContentBlock>,
    open: Option<OpenBlock>,
    stop_reason: Option<String>,
    usage: Usage,
    unusable_tool_inputs: Vec<String>,
    begun: bool,
    whole: bool,
}

#[derive(Debug)]
struct OpenBlock {
    block: ContentBlock,
    input_json: String,
}

impl Accumulator {
    /// Takes the next event.
    ///
    /// # Errors
    /// When the event is an error of the API, or cannot come at this point.
    pub fn push(&mut self, event: StreamEvent) -> Result<(), Error> {
        match event {
            StreamEvent::Ping | StreamEvent::Unknown => return Ok(()),
            StreamEvent::Error { error } => {
                return Err(Error::Api {
                    status: None,
                    kind: error.kind,
                    message: error.message,
                    retry_after: None,
                    should_retry: None,
                });
            }
            StreamEvent::MessageStart { message } => return self.begin(message),
            StreamEvent::ContentBlockStart { .. }
            | StreamEvent::ContentBlockDelta { .. }
            | StreamEvent::ContentBlockStop { .. }
            | StreamEvent::MessageDelta { .. }
            | StreamEvent::MessageStop => {}
        }
        if !self.begun || self.whole {
            return Err(Error::Malformed("an event outside of the message".to_owned()));
        }
        match event {
            StreamEvent::ContentBlockStart { index, content_block } => self.open_block(index, content_block),
            StreamEvent::ContentBlockDelta { index, delta } => self.grow_block(index, delta),
            StreamEvent::ContentBlockStop { index } => self.close_block(index),
            StreamEvent::MessageDelta { delta, usage } => {
                self.usage.apply(&usage);
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                Ok(())
            }
            _ => self.end(),
        }
    }

    /// Whether the answer's end has come.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether anything of the answer has come.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// What the call used so far, also when it is given up.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The whole answer.
    ///
    /// # Errors
    /// When its end has not come.
    pub fn finish(self) -> Result<Reply, Error> {
        if !self.whole {
            return Err(Error::Truncated);
        }
        Ok(Reply {
            id: self.id,
            model: self.model,
            content: self.content,
            stop_reason: self.stop_reason,
            usage: self.usage,
            unusable_tool_inputs: self.unusable_tool_inputs,
        })
    }

    fn begin(&mut self, head: crate::MessageHead) -> Result<(), Error> {
        if std::mem::replace(&mut self.begun, true) {
            return Err(Error::Malformed("a second message_start".to_owned()));
        }
        self.usage.apply(&head.usage);
        self.id = head.id;
        self.model = head.model;
        Ok(())
    }

    fn open_block(&mut self, index: usize, block: ContentBlock) -> Result<(), Error> {
        if self.open.is_some() || index != self.content.len() {
            return Err(Error::Malformed(format!("block {index} begins out of turn")));
        }
        self.open = Some(OpenBlock { block, input_json: String::new() });
        Ok(())
    }

    fn open_at(&mut self, index: usize) -> Result<&mut OpenBlock, Error> {
        match &mut self.open {
            Some(open) if index == self.content.len() => Ok(open),
            _ => Err(Error::Malformed(format!("block {index} is not open"))),
        }
    }

    fn grow_block(&mut self, index: usize, delta: BlockDelta) -> Result<(), Error> {
        let open = self.open_at(index)?;
        match (delta, &mut open.block) {
            (BlockDelta::Text { text: more }, ContentBlock::Text { text, .. }) => text.push_str(&more),
            (BlockDelta::Thinking { thinking: more }, ContentBlock::Thinking { thinking, .. }) => {
                thinking.push_str(&more);
            }
            (BlockDelta::Signature { signature: more }, ContentBlock::Thinking { signature, .. }) => {
                signature.push_str(&more);
            }
            (BlockDelta::InputJson { partial_json }, ContentBlock::ToolUse { .. }) => {
                open.input_json.push_str(&partial_json);
            }
            // What an unknown kind of block is made of cannot be known either.
            (BlockDelta::Unknown, _) | (_, ContentBlock::Other(_)) => {}
            (delta, _) => {
                return Err(Error::Malformed(format!("{delta:?} does not fit block {index}")));
            }
        }
        Ok(())
    }

    fn close_block(&mut self, index: usize) -> Result<(), Error> {
        self.open_at(index)?;
        let Some(OpenBlock { mut block, input_json }) = self.open.take() else { return Ok(()) };
        if let ContentBlock::ToolUse { id, input, .. } = &mut block
            && !settle_input(input, &input_json)
        {
            self.unusable_tool_inputs.push(id.clone());
        }
        self.content.push(block);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.open.is_some() {
            return Err(Error::Malformed("the message ends inside a block".to_owned()));
        }
        self.whole = true;
        Ok(())
    }
}

/// Puts the streamed arguments into `input`; false when they are not an object.
fn settle_input(input: &mut Value, streamed: &str) -> bool {
    if !streamed.trim().is_empty() {
        *input = serde_json::from_str(streamed).unwrap_or(Value::Null);
    } else if input.is_null() {
        *input = Value::Object(Map::new());
    }
    let usable = input.is_object();
    if !usable {
        *input = Value::Object(Map::new());
    }
    usable
}
