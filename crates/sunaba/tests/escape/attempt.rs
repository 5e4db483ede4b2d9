//! What an attempt is, and where it is made without its guard.

/// Where the same script runs without the guard it is up against, and must succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Without {
    /// On the host, as the ordinary user that owns the decoys.
    User,
    /// On the host as root, in a mount and a pid namespace of its own. Such an attempt opens or asks; it
    /// changes nothing.
    Root,
    /// As root of a user namespace with all other namespaces of its own, where a proxy without rules and
    /// the addresses of others answer.
    NamespaceRoot,
    /// In a bare bubblewrap as an ordinary user: every namespace, no capability, no system-call filter.
    Bubblewrap,
    /// On the host as the server's own user, who may read everything the server keeps.
    Server,
    /// In the sandbox that is attacked: what is its own is open to it.
    Victim,
    /// On the host with the administrator's token.
    Admin,
}

impl Without {
    /// A word for directories and reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
            Self::NamespaceRoot => "namespace-root",
            Self::Bubblewrap => "bubblewrap",
            Self::Server => "server",
            Self::Victim => "victim",
            Self::Admin => "admin",
        }
    }
}

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Shell,
    Python,
}

/// One way out that is tried. Its script prints the canary or the word of success only if it got through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// What stands in its way.
    pub(crate) guard: &'static str,
    pub(crate) without: Without,
    pub(crate) language: Language,
    pub(crate) script: &'static str,
}

/// An attempt in the shell.
pub(crate) const fn sh(
    name: &'static str,
    guard: &'static str,
    without: Without,
    script: &'static str,
) -> Attempt {
    Attempt { name, guard, without, language: Language::Shell, script }
}

/// An attempt in Python.
pub(crate) const fn py(
    name: &'static str,
    guard: &'static str,
    without: Without,
    script: &'static str,
) -> Attempt {
    Attempt { name, guard, without, language: Language::Python, script }
}

impl Attempt {
    /// The name of its script's file.
    pub(crate) fn file_name(&self) -> String {
        let suffix = if self.language == Language::Python { "py" } else { "sh" };
        format!("{}.{suffix}", self.name)
    }
}

/// Attempts at the same thing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Category {
    pub(crate) name: &'static str,
    pub(crate) attempts: &'static [Attempt],
}
