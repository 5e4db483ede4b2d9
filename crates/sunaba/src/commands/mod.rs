//! The client commands: each asks a server over HTTP and shows the answer, for people or as JSON.

pub(crate) mod attach;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod live;
pub(crate) mod logs;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod summary;
pub(crate) mod token;
pub(crate) mod verify;

use std::path::PathBuf;

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

    /// The same for a server with this data directory.
    pub(crate) fn for_data_dir(data: PathBuf) -> Self {
        let place = Place::DataDir { dir: data.clone(), token: None };
        Self { data: Some(data), json: false, colour: Colour::for_stdout(), place }
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
            ("auth", args.auth.clone()),
            ("log.format", args.log_format.clone()),
            ("log.level", args.log_level.clone()),
        ];
        outside.flags.extend(given.into_iter().filter_map(|(key, value)| Some((key, value?))));
        outside
    }
}
