//! `sunaba token`: make, list and revoke tokens. A token itself is shown once, to who made it.

use std::process::ExitCode;

use serde_json::{Value, json};
use sunaba_types::{Clock, Project, SystemClock, TokenRecord};

use super::Context;
use crate::args::{TokenCommand, TokenCreateArgs, TokenKindArg};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{clean_line, table};

/// Does what was asked with tokens.
pub(crate) async fn token(context: &Context, command: TokenCommand) -> Outcome {
    let client = context.client().await?;
    match command {
        TokenCommand::Create(args) => create(context, &client, &args).await,
        TokenCommand::List => list(context, &client).await,
        TokenCommand::Revoke { id } => revoke(context, &client, &id).await,
    }
}

async fn create(context: &Context, client: &Client, args: &TokenCreateArgs) -> Outcome {
    let mut body = json!({ "name": args.name });
    match args.kind {
        TokenKindArg::Admin => body["kind"] = json!("admin"),
        TokenKindArg::Personal => {
            body["kind"] = json!("personal");
            body["scopes"] = json!(args.scopes);
            body["projects"] = json!(project_ids(client, &args.projects).await?);
        }
    }
    if let Some(days) = args.days {
        body["expires_in_seconds"] = json!(i64::from(days) * 24 * 60 * 60);
    }
    let answer = client.create_token(&body).await?;
    if context.json {
        output::json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    let token = answer.get("token").and_then(Value::as_str);
    let token = token.ok_or_else(|| Failure::other("the server did not give the token"))?;
    output::line(token);
    output::note("this token is shown only now; keep it safe");
    Ok(ExitCode::SUCCESS)
}

/// The ids of projects that are named by id or name; a token for a project that is not there opens nothing.
async fn project_ids(client: &Client, words: &[String]) -> Outcome<Vec<String>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let known = client.projects().await?;
    let id_of = |word: &String| {
        let named = |project: &&Project| project.id.as_str() == word || project.name == *word;
        let mut matching = known.iter().filter(named);
        match (matching.next(), matching.next()) {
            (Some(project), None) => Ok(project.id.to_string()),
            (None, _) => Err(Failure::other(format!("there is no project {word}; nothing was made"))),
            _ => Err(Failure::usage(format!("{word} is the name of several projects; write an id"))),
        }
    };
    words.iter().map(id_of).collect()
}

async fn list(context: &Context, client: &Client) -> Outcome {
    let tokens = client.tokens().await?;
    if context.json {
        output::json(&tokens);
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemClock.now();
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| {
            let state = match (token.revoked_at, token.expires_at) {
                (Some(_), _) => "revoked".to_owned(),
                (None, Some(at)) if at <= now => "expired".to_owned(),
                (None, Some(at)) => format!("until {at}"),
                (None, None) => "valid".to_owned(),
            };
            let scopes = if token.scopes.is_empty() { "-".to_owned() } else { token.scopes.join(",") };
            vec![token.id.to_string(), token.kind.to_string(), scopes, state, clean_line(&token.name)]
        })
        .collect();
    output::out(&table(&["ID", "KIND", "SCOPES", "STATE", "NAME"], &rows));
    Ok(ExitCode::SUCCESS)
}

async fn revoke(context: &Context, client: &Client, word: &str) -> Outcome {
    let tokens = client.tokens().await?;
    let id = choose(word, &tokens)?;
    let revoked = client.revoke_token(&id).await?;
    if context.json {
        output::json(&revoked);
    } else {
        output::line(&format!("{id} revoked"));
    }
    Ok(ExitCode::SUCCESS)
}

fn choose(word: &str, tokens: &[TokenRecord]) -> Outcome<String> {
    let exact = tokens.iter().find(|token| token.id.as_str() == word);
    if let Some(token) = exact {
        return Ok(token.id.to_string());
    }
    let named = |token: &&TokenRecord| {
        let living = token.revoked_at.is_none();
        living
            && (token.name == word
                || token.id.as_str().starts_with(word)
                || token.id.as_str().ends_with(word))
    };
    let matching: Vec<&TokenRecord> = tokens.iter().filter(named).collect();
    match matching.as_slice() {
        [one] => Ok(one.id.to_string()),
        [] => Err(Failure::other(format!("no valid token is called {word}; `sunaba token list` lists them"))),
        _ => Err(Failure::usage(format!("{word} could be several tokens; write more of the id"))),
    }
}
