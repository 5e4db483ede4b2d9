//! `sunaba files`: a sandbox's files as they were after an event.

use std::process::ExitCode;

use serde_json::Value;

use super::Context;
use crate::args::FilesArgs;
use crate::client::resolve;
use crate::failure::Outcome;
use crate::output;
use crate::render::clean_line;

/// Lists a folder or prints a file; piped, a file comes byte for byte.
pub(crate) async fn files(context: &Context, args: &FilesArgs) -> Outcome {
    let client = context.client().await?;
    let id = resolve(&client, &args.id).await?;
    let shown = client.files(&id, &args.at, &args.path).await?;
    if context.json {
        output::json(&shown);
        return Ok(ExitCode::SUCCESS);
    }
    match shown["type"].as_str() {
        Some("directory") => list(&shown),
        Some("file" | "symlink") => {
            print(&client.file_bytes(&id, &args.at, &args.path).await?);
        }
        _ => output::note(&format!("{} is a repository of its own", clean_line(&args.path))),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(shown: &Value) {
    for entry in shown["entries"].as_array().into_iter().flatten() {
        let name = clean_line(entry["name"].as_str().unwrap_or_default());
        let mark = match entry["type"].as_str() {
            Some("directory") => "/",
            Some("symlink") => "@",
            _ if entry["executable"] == true => "*",
            _ => "",
        };
        output::out(&format!("{name}{mark}\n"));
    }
    if shown["truncated"] == true {
        output::note("there are more than are shown");
    }
}

fn print(bytes: &[u8]) {
    if !output::is_terminal() {
        return output::out_bytes(bytes);
    }
    match std::str::from_utf8(bytes) {
        // A terminal must not obey what stands in a file.
        Ok(text) => text.lines().for_each(|line| output::out(&format!("{}\n", clean_line(line)))),
        Err(_) => output::note(&format!("{} bytes that are no text; pipe them somewhere", bytes.len())),
    }
}
