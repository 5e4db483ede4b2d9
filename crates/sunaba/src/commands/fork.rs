//! `sunaba fork`: another try from where a sandbox was after an event.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::Context;
use crate::args::ForkArgs;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;
use crate::render::clean_line;

/// Asks for it and says what it is called; it works by itself.
pub(crate) async fn fork(context: &Context, args: &ForkArgs) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, &args.id).await?;
    let mut body = json!({ "at": args.at, "prompt": args.prompt, "conversation": !args.new_conversation });
    for (name, value) in [("runtime", &args.runtime), ("model", &args.model)] {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    let made: Value = client.fork(&id, &body).await?;
    if context.json {
        output::json(&made);
    } else {
        let id = clean_line(made["id"].as_str().unwrap_or_default());
        output::line(&id);
        output::note(&format!("watch it: {}", context.hint(&format!("attach {id}"))));
    }
    Ok(ExitCode::SUCCESS)
}
