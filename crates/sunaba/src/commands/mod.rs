//! The client commands: each asks a server over HTTP and shows the answer, for people or as JSON.

pub(crate) mod agent;
pub(crate) mod attach;
pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod doctor;
mod egress;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod live;
pub(crate) mod logs;
pub(crate) mod project;
pub(crate) mod ps;
pub(crate) mod questions;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod summary;
pub(crate) mod token;
pub(crate) mod verify;

use std::path::{Path, PathBuf};

use crate::args::SettingArgs;
use crate::client::{Client, Place, connect};
use crate::config::Outside;
use crate::failure::Outcome;
use crate::output::Colour;

/// What every command knows.
#[derive(Debug)]
pub(crate) struct Context {
    /// The data directory, if it was named.
    data: Option<PathBuf>,
    /// Whether the answer is for programs.
    pub(crate) json: bool,
    /// Whether the answer may be coloured.
    pub(crate) colour: Colour,
    /// Where the server is.
    pub(crate) place: Place,
}

impl Context {
    /// What the command line and the environment say.
    pub(crate) fn new(data: Option<PathBuf>, json: bool) -> Self {
        let place = Place::from_process(data.as_deref());
        Self { data, json, colour: Colour::for_stdout(), place }
    }

    /// Whether the command line names a data directory.
    pub(crate) fn names_data(&self) -> bool {
        self.data.is_some()
    }

    /// The same for a server with this data directory.
    pub(crate) fn for_data_dir(data: PathBuf) -> Self {
        let place = Place::DataDir { dir: data.clone(), token: None };
        Self { data: Some(data), json: false, colour: Colour::for_stdout(), place }
    }

    /// A command for the person to type, as it works from where they are.
    pub(crate) fn hint(&self, command: &str) -> String {
        let dir = match &self.place {
            Place::DataDir { dir, .. } => Some(dir.as_path()),
            Place::Named { .. } => None,
        };
        hint(dir, command)
    }

    /// A client for the server, which answers.
    pub(crate) async fn client(&self) -> Outcome<Client> {
        connect(&self.place).await
    }

    /// Everything that was set outside of files.
    pub(crate) fn settings(&self, args: &SettingArgs) -> Outside {
        let mut outside = Outside::from_process();
        outside.files.clone_from(&args.config);
        let given = [
            ("data_dir", self.data.as_ref().map(|path| path.display().to_string())),
            ("listen", args.listen.clone()),
            ("public_url", args.public_url.clone()),
            ("database_url", args.database_url.clone()),
            ("redis_url", args.redis_url.clone()),
            ("roles", args.roles.clone()),
            ("node_address", args.node_address.clone()),
            ("auth", args.auth.clone()),
            ("log.format", args.log_format.clone()),
            ("log.level", args.log_level.clone()),
        ];
        outside.flags.extend(given.into_iter().filter_map(|(key, value)| Some((key, value?))));
        outside
    }
}

/// A command for the person to type: called as this program was, with the data directory unless it is the one
/// that is taken anyway.
pub(crate) fn hint(dir: Option<&Path>, command: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "sunaba".to_owned());
    let usual = crate::config::data_dir(&Outside::from_process());
    let data =
        dir.filter(|dir| *dir != usual).map(|dir| format!(" --data {}", quoted(&dir.to_string_lossy())));
    format!("{}{} {command}", quoted(&program), data.unwrap_or_default())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:+@%=,~".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", crate::render::clean_line(word).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_a_directory_that_is_not_the_usual_one() {
        let usual = crate::config::data_dir(&Outside::from_process());
        assert!(!hint(Some(&usual), "ps").contains("--data"));
        assert!(hint(Some(Path::new("/a b")), "ps").ends_with(" --data '/a b' ps"));
    }
}
