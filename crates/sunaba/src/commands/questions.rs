//! `sunaba questions` and `sunaba answer`: what agents ask, and what people say to it.

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use sunaba_types::{Clock as _, Decision, Question, QuestionState, SystemClock};

use super::Context;
use crate::args::{AnswerArgs, QuestionsArgs};
use crate::client::{Client, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{ago, clean_line, question_input};

/// How many are listed.
const LISTED: u32 = 500;

/// Lists questions: the open ones, or all.
pub(crate) async fn list(context: &Context, args: &QuestionsArgs) -> Outcome {
    let client = context.client().await?;
    let sandbox = match &args.sandbox {
        Some(word) => Some(resolve(&client, word).await?),
        None => None,
    };
    let state = (!args.all).then_some(QuestionState::Open);
    let mut questions = client.questions(sandbox.as_deref(), state, LISTED).await?;
    if context.json {
        output::json(&questions);
        return Ok(ExitCode::SUCCESS);
    }
    if questions.is_empty() {
        output::note(if args.all { "no agent has asked anything" } else { "no question is open" });
    }
    questions.reverse();
    for question in &questions {
        output::out(&told(context, question));
    }
    Ok(ExitCode::SUCCESS)
}

fn told(context: &Context, question: &Question) -> String {
    let age = ago(question.asked_at, SystemClock.now());
    let tool = clean_line(&question.tool);
    let head = format!("{}  {}  {age}  {tool}", question.id, question.sandbox_id);
    let input = question_input(&question.input, "    ");
    let fate = match (question.state, question.answer) {
        (QuestionState::Open, _) => {
            format!("    answer: {}\n", context.hint(&format!("answer {} allow|deny", question.id)))
        }
        (state, Some(answer)) => {
            let by = question.answered_by.as_deref().map(|by| format!(" by {}", clean_line(by)));
            format!("    {state}: {answer}{}\n", by.unwrap_or_default())
        }
        (state, None) => format!("    {state}\n"),
    };
    format!("{}\n{input}{}", context.colour.bold(&head), context.colour.dim(&fate))
}

/// Answers one.
pub(crate) async fn answer(context: &Context, args: &AnswerArgs) -> Outcome {
    let body = body(args)?;
    let client = context.client().await?;
    let question = find(&client, &args.question).await?;
    let answered = client.answer(question.sandbox_id.as_str(), question.id.as_str(), &body).await?;
    if context.json {
        output::json(&answered);
    } else {
        output::line(&format!("{} {}", answered.id, args.decision));
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer as the server takes it.
fn body(args: &AnswerArgs) -> Outcome<Value> {
    let mut body = json!({ "decision": args.decision });
    if let Some(words) = &args.message {
        if args.decision == Decision::Allow {
            return Err(Failure::usage("--message goes with deny; `sunaba send` says something to an agent"));
        }
        body["message"] = json!(words);
    }
    if let Some(text) = &args.input {
        if args.decision == Decision::Deny {
            return Err(Failure::usage("--input goes with allow"));
        }
        let input: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("--input is not a JSON object: {error}")))?;
        body["updated_input"] = Value::Object(input);
    }
    if args.always {
        body["remember"] = json!("tool");
    }
    Ok(body)
}

/// The question that a word names: the beginning or the end of its id, or `last` for the newest open one.
async fn find(client: &Client, word: &str) -> Outcome<Question> {
    let known = client.questions(None, None, LISTED).await?;
    if word == "last" {
        let open = known.into_iter().find(|question| question.state == QuestionState::Open);
        return open.ok_or_else(|| Failure::other("no question is open"));
    }
    choose(word, known)
}

fn choose(word: &str, known: Vec<Question>) -> Outcome<Question> {
    let names = |id: &str| {
        let bare = id.split_once('_').map_or(id, |(_, bare)| bare);
        id == word || id.starts_with(word) || bare.starts_with(word) || id.ends_with(word)
    };
    let mut matching: Vec<Question> =
        known.into_iter().filter(|question| names(question.id.as_str())).collect();
    match matching.len() {
        1 => Ok(matching.remove(0)),
        0 => {
            Err(Failure::other(format!("no question is called {word}; `sunaba questions --all` lists them")))
        }
        _ => Err(Failure::usage(format!("{word} could be several questions; write more of it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(decision: Decision) -> AnswerArgs {
        AnswerArgs { question: "last".to_owned(), decision, message: None, input: None, always: false }
    }

    #[test]
    fn words_go_with_deny_and_arguments_with_allow() {
        let allow = AnswerArgs { input: Some(r#"{"command": "ls"}"#.to_owned()), ..args(Decision::Allow) };
        let expected = json!({"decision": "allow", "updated_input": {"command": "ls"}});
        assert_eq!(body(&allow).unwrap(), expected);
        let deny = AnswerArgs { message: Some("no".to_owned()), always: true, ..args(Decision::Deny) };
        let expected = json!({"decision": "deny", "message": "no", "remember": "tool"});
        assert_eq!(body(&deny).unwrap(), expected);
        for wrong in [
            AnswerArgs { message: Some("yes".to_owned()), ..args(Decision::Allow) },
            AnswerArgs { input: Some("{}".to_owned()), ..args(Decision::Deny) },
            AnswerArgs { input: Some("ls".to_owned()), ..args(Decision::Allow) },
        ] {
            assert_eq!(body(&wrong).unwrap_err().exit_code(), 2);
        }
    }
}
