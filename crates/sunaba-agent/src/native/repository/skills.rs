//! Skills: what somebody wrote down on how to do a thing, read when that thing is to be done.

use std::path::{Path, PathBuf};

use super::front_matter::Document;
use super::{entries, places, put, read};
use crate::text::clip;

const DESCRIPTION_MAX_CHARS: usize = 1_000;
const BODY_MAX_CHARS: usize = 100_000;

/// A skill of the repository. Its words are read when it is used, not before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::native) struct Skill {
    pub(in crate::native) name: String,
    /// When to use it.
    pub(in crate::native) description: String,
    file: PathBuf,
}

/// Every skill there is, by name once.
pub(in crate::native) fn skills(cwd: &Path) -> Vec<Skill> {
    let mut skills = Vec::new();
    for place in places(cwd) {
        for directory in [".claude/skills", ".sunaba/skills"] {
            for skill in entries(&place.join(directory)).iter().filter_map(|path| from_directory(path)) {
                put(&mut skills, skill, |skill| &skill.name);
            }
        }
    }
    skills
}

fn from_directory(directory: &Path) -> Option<Skill> {
    let file = directory.join("SKILL.md");
    let document = Document::parse(&read(&file)?);
    let name = document.field("name").map(ToOwned::to_owned);
    let name = name.or_else(|| Some(directory.file_name()?.to_str()?.to_owned()))?;
    let description = clip(document.field("description").unwrap_or(&name), DESCRIPTION_MAX_CHARS);
    Some(Skill { name, description, file })
}

impl Skill {
    /// Its words, and where the files are that they speak of.
    pub(in crate::native) fn body(&self) -> Option<String> {
        let body = Document::parse(&read(&self.file)?).body;
        let directory = self.file.parent()?.display();
        Some(format!("Files that this skill names are in {directory}.\n\n{}", clip(&body, BODY_MAX_CHARS)))
    }
}
