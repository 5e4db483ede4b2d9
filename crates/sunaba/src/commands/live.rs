//! Follows a sandbox on the terminal: the story comes in, typed lines and Ctrl-C go out.
//!
//! The first Ctrl-C interrupts the agent; a second one within two seconds asks (on a terminal) whether
//! to stop the sandbox or to leave it running, or stops it (without one). Ctrl-D leaves it running.

use std::io::IsTerminal;
use std::time::Duration;

use sunaba_types::{MessageType, SandboxState};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::Context;
use super::logs::show_event;
use crate::client::{Client, Event, Follower, News};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{Look, Story, message_line, shorten};

mod deliveries;
mod keys;
mod questions;

use deliveries::Deliveries;
use keys::{Choice, Interrupts, Press, Typed};

/// Told when the result of a sandbox is recorded before its end.
const RESULT: &str = "sandbox.result";
/// How often the fate of a sent message is asked for while it is open.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// Who sent the messages of this client.
const YOU: &str = "you";
/// How much of a message is repeated when its state changes.
const ECHO_MAX_CHARS: usize = 40;
/// What the agent is told when somebody presses Ctrl-C: nothing (a message has at least one character).
/// Without words it stops and waits to be told more; with words it would go on with them at once.
pub(crate) const WORDLESS: &str = " ";

/// How the following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The sandbox ended in this state.
    In(SandboxState),
    /// The person left; it goes on.
    Detached,
}

/// Something to say when an event comes, for watchers that steer by themselves.
pub(crate) type Prompter = Box<dyn FnMut(&Event) -> Option<String> + Send>;

/// How to follow.
pub(crate) struct Manners {
    /// Where to begin.
    pub(crate) after_seq: i64,
    /// Whether Ctrl-C, and what is typed at a terminal, go to the agent.
    pub(crate) talk: bool,
    /// Whether lines of standard input go to the agent even when it is no terminal.
    pub(crate) stdin: bool,
    /// Whether nothing is left out of the story.
    pub(crate) full: bool,
    /// What to say at which event, besides.
    pub(crate) prompter: Option<Prompter>,
}

impl Manners {
    /// From the beginning, with typed lines and Ctrl-C going to the agent; those of a pipe only if asked for.
    pub(crate) fn conversation(stdin: bool) -> Self {
        Self { after_seq: 0, talk: true, stdin, full: false, prompter: None }
    }

    /// From the beginning, only reading.
    pub(crate) fn reading() -> Self {
        Self { after_seq: 0, talk: false, stdin: false, full: false, prompter: None }
    }
}

/// Follows until the sandbox has ended or the person leaves.
pub(crate) async fn watch(context: &Context, id: &str, manners: Manners) -> Outcome<Ended> {
    let client = context.place.client()?;
    let on_terminal = std::io::stdin().is_terminal();
    // What is piped in may be meant for somebody else, as in a loop over lines of a file.
    let listens = manners.talk && (on_terminal || manners.stdin);
    let typed = if listens { keys::read_lines() } else { keys::silence() };
    let mut live = Live {
        context,
        client,
        id,
        story: Story::new(Look {
            full: manners.full,
            ..Look::for_stdout(context.colour, context.hint(&format!("logs {id} --full")))
        }),
        own_name: None,
        deliveries: Deliveries::default(),
        questions: questions::Open::default(),
        interrupts: Interrupts::default(),
        prompter: manners.prompter,
        on_terminal,
        listens,
        lost: false,
    };
    let follower = Follower::start(context.place.clone(), id.to_owned(), manners.after_seq);
    let presses = if manners.talk { Some(signal(SignalKind::interrupt())?) } else { None };
    let ended = live.run(follower, typed, presses).await;
    output::out(&live.story.finish_output());
    ended
}

struct Live<'a> {
    context: &'a Context,
    client: Client,
    id: &'a str,
    story: Story,
    /// The name that the server knows this client by, once a message told it.
    own_name: Option<String>,
    deliveries: Deliveries,
    questions: questions::Open,
    listens: bool,
    interrupts: Interrupts,
    prompter: Option<Prompter>,
    on_terminal: bool,
    lost: bool,
}

impl Live<'_> {
    async fn run(
        &mut self,
        mut follower: Follower,
        mut typed: mpsc::Receiver<Typed>,
        mut presses: Option<Signal>,
    ) -> Outcome<Ended> {
        let mut ask = tokio::time::interval(ASK_EVERY);
        loop {
            let ended = tokio::select! {
                news = follower.next() => self.hear(news).await?,
                Some(typed) = typed.recv() => self.typed(typed).await,
                () = next_press(&mut presses) => self.pressed().await,
                _ = ask.tick(), if self.deliveries.any_open() => { self.ask_deliveries().await; None }
            };
            if let Some(ended) = ended {
                self.ask_deliveries().await;
                return Ok(ended);
            }
        }
    }

    async fn hear(&mut self, news: Option<News>) -> Outcome<Option<Ended>> {
        match news {
            Some(News::Event(event)) => return Ok(self.event(&event).await),
            Some(News::Lost) if !self.lost => {
                self.lost = true;
                self.note("the server went away; trying again");
            }
            Some(News::Lost) => {}
            Some(News::Back) => {
                self.lost = false;
                self.client = self.context.place.client()?;
                self.note("connected again");
            }
            Some(News::Ended(state)) => return Ok(Some(Ended::In(state))),
            Some(News::Over(failure)) => return Err(failure),
            None => return Err(Failure::other("the log can no longer be followed")),
        }
        Ok(None)
    }

    async fn event(&mut self, event: &Event) -> Option<Ended> {
        if let Some(message_id) =
            event.text("message_id").filter(|_| event.event_type == "agent.message_injected")
        {
            self.deliveries.told_consumed(message_id);
        }
        if !self.context.json && self.story.wants_sender(event) {
            self.learn_senders().await;
        }
        show_event(self.context, &mut self.story, event);
        if self.questions.hear(event) && !self.context.json {
            self.note(&self.how_to_answer(event));
        }
        let line = self.prompter.as_mut().and_then(|prompter| prompter(event));
        if let Some(line) = line {
            self.say(&line, MessageType::UserMessage).await;
        }
        if event.event_type == RESULT && self.waits_for_more().await {
            return Some(Ended::In(SandboxState::Completed));
        }
        event.new_state().filter(|state| state.is_terminal()).map(Ended::In)
    }

    /// Whether the result is there and the sandbox only waits for a follow-up, and not gone on with one.
    async fn waits_for_more(&self) -> bool {
        let state = self.client.sandbox(self.id).await.map(|sandbox| sandbox.state);
        matches!(state, Ok(SandboxState::Completing))
    }

    async fn typed(&mut self, typed: Typed) -> Option<Ended> {
        match typed {
            Typed::End if self.on_terminal => Some(Ended::Detached),
            // A pipe that ended has said all it had to say.
            Typed::End => None,
            Typed::Line(line) => match self.interrupts.answer(&line) {
                Some(Choice::Stop) => self.stop().await,
                Some(Choice::Detach) => Some(Ended::Detached),
                Some(Choice::GoOn) => None,
                None if line.trim().is_empty() => None,
                None => {
                    match self.questions.answer(&line) {
                        Some((question, answer)) => self.answer(question, &answer).await,
                        None => self.say(line.trim_end(), MessageType::UserMessage).await,
                    }
                    None
                }
            },
        }
    }

    async fn pressed(&mut self) -> Option<Ended> {
        match self.interrupts.press(std::time::Instant::now(), self.on_terminal) {
            Press::Interrupt => {
                self.say(WORDLESS, MessageType::Interrupt).await;
                None
            }
            Press::Ask => {
                self.note("s: stop the sandbox   d: leave it running   Enter: go on");
                None
            }
            Press::Stop => self.stop().await,
        }
    }

    async fn stop(&mut self) -> Option<Ended> {
        // The end is heard in the log, like any other event.
        match self.client.stop(self.id).await {
            Ok(_) => None,
            Err(failure) => {
                self.note(&failure.to_string());
                Some(Ended::Detached)
            }
        }
    }

    async fn say(&mut self, text: &str, kind: MessageType) {
        match self.client.send(self.id, text, kind).await {
            Ok(sent) => {
                self.show_message(kind.as_str(), text, "sent");
                self.story.sender_is(sent.message_id.as_str(), YOU);
                self.deliveries.sent(sent.message_id.as_str(), kind.as_str(), text);
            }
            Err(failure) => self.note(&format!("not sent: {failure}")),
        }
    }

    /// What is to be typed, here or elsewhere.
    fn how_to_answer(&self, event: &Event) -> String {
        let id = event.text("question_id").unwrap_or_default();
        if self.listens {
            questions::KEYS.to_owned()
        } else {
            format!("answer with: {}", self.context.hint(&format!("answer {id} allow|deny")))
        }
    }

    async fn answer(&mut self, question: String, answer: &serde_json::Value) {
        match self.client.answer(self.id, &question, answer).await {
            // That it is answered is heard in the log, like any other event.
            Ok(_) => self.questions.forget(&question),
            Err(failure) => {
                if matches!(failure, Failure::Refused(_)) {
                    self.questions.forget(&question);
                }
                self.note(&format!("not answered: {failure}"));
            }
        }
    }

    async fn ask_deliveries(&mut self) {
        if !self.deliveries.any_open() {
            return;
        }
        // A server that is away is noticed and reported by the follower.
        let Ok(history) = self.client.message_history(self.id).await else { return };
        if self.own_name.is_none() {
            let own = history.iter().find(|message| self.deliveries.is_open(message.id.as_str()));
            self.own_name = own.map(|message| message.sender.clone());
        }
        for change in self.deliveries.update(&history) {
            self.show_message(&change.kind, &shorten(&change.content, ECHO_MAX_CHARS), &change.state);
        }
    }

    /// Asks who sent the messages; those of this client are its person's own.
    async fn learn_senders(&mut self) {
        // Without an answer the story says that it does not know.
        let Ok(history) = self.client.message_history(self.id).await else { return };
        for message in &history {
            let is_own = self.own_name.as_deref() == Some(message.sender.as_str());
            let who = if is_own { YOU } else { message.sender.as_str() };
            self.story.learn_sender(message.id.as_str(), who);
        }
    }

    fn show_message(&mut self, kind: &str, content: &str, state: &str) {
        if self.context.json {
            output::json(&serde_json::json!({ "message": content, "message_type": kind, "state": state }));
        } else {
            let rest = self.story.finish_output();
            output::out(&format!("{rest}{}", message_line(self.context.colour, kind, YOU, content, state)));
        }
    }

    fn note(&mut self, text: &str) {
        output::note(&crate::render::clean_line(text));
    }
}

async fn next_press(presses: &mut Option<Signal>) {
    match presses {
        Some(presses) => {
            if presses.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}
