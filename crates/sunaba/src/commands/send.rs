//! `sunaba send` and `sunaba interrupt`: say something to an agent.

use std::process::ExitCode;

use sunaba_types::MessageType;

use super::Context;
use super::live::WORDLESS;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;

/// Says something that the agent reads at its next step.
pub(crate) async fn send(context: &Context, word: &str, text: &str) -> Outcome {
    say(context, word, text, MessageType::UserMessage).await
}

/// Stops what the agent is doing now.
pub(crate) async fn interrupt(context: &Context, word: &str, text: Option<&str>) -> Outcome {
    say(context, word, text.unwrap_or(WORDLESS), MessageType::Interrupt).await
}

async fn say(context: &Context, word: &str, text: &str, kind: MessageType) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, word).await?;
    let sent = client.send(&id, text, kind).await?;
    if context.json {
        output::json(&sent);
    } else {
        let waiting = sent.queue_size;
        let to = &sent.sandbox_id;
        output::line(&format!("{} {} for {to} ({waiting} waiting)", sent.message_id, sent.status));
        if sent.effect == "new_attempt" {
            output::note(&sent.detail);
        }
    }
    Ok(ExitCode::SUCCESS)
}
