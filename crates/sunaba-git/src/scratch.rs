//! Looks at a work tree with an index and a store of its own, so that nothing of the work tree's repository changes.
//!
//! Whoever works in the tree controls its `.git`: settings, hooks, references, even whether it is there. None of that
//! is read here after the beginning. The scratch repository lies elsewhere, borrows objects only from where nobody
//! inside can take them away, and has settings of its own; what remains of the tree's say are its files, its
//! `.gitignore`, `.gitattributes` and `.git/info/exclude`. No filter, hook or monitor is ever run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::changes::{Changes, between};
use crate::command::{Git, LONG};
use crate::{Error, Result};

/// Most that git says about a tree in one look.
const LOOK_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes are taken as they lie there: for trees whose attributes cannot be obeyed.
const BY_THE_BYTE: &str = "* -text -eol -ident -filter -working-tree-encoding\n";
const NAME: &str = "Sunaba";
const EMAIL: &str = "steps@sunaba.invalid";

/// The scratch repository of a work tree.
#[derive(Debug, Clone)]
pub struct Scratch {
    dir: PathBuf,
    work_tree: PathBuf,
    reference: String,
    excludes: PathBuf,
    /// The commit that the first tree follows; none in a repository without one.
    start: Option<String>,
}

/// One path that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// From the top of the tree, as bytes: a name need not be text.
    pub path: Vec<u8>,
    /// Whether it was known before.
    pub known: bool,
}

impl Seen {
    /// Whether it is a repository within the tree, which is not looked into.
    pub fn is_repository(&self) -> bool {
        self.path.ends_with(b"/")
    }
}

impl Scratch {
    /// Makes the scratch repository of a work tree at `dir`, or takes up the one that is there for the same reference.
    pub async fn open(dir: &Path, work_tree: &Path, reference: &str) -> Result<Self> {
        let places = Git::at(work_tree, "rev-parse").args(["--show-object-format", "--absolute-git-dir"]);
        let places = places.args(["--git-path", "objects", "--git-path", "info/exclude"]).text().await?;
        let [format, git_dir, objects, excludes] = &places.lines().collect::<Vec<_>>()[..] else {
            return Err(Error::NotARepository(work_tree.to_owned()));
        };
        let mut scratch = Self {
            dir: dir.to_owned(),
            work_tree: work_tree.to_owned(),
            reference: reference.to_owned(),
            excludes: work_tree.join(excludes),
            start: None,
        };
        if let Ok(start) = scratch.resolve(reference).await {
            scratch.start = Some(start);
            scratch.clear_locks();
            return Ok(scratch);
        }
        let _ = std::fs::remove_dir_all(dir);
        let (git_dir, objects) = (Path::new(git_dir), work_tree.join(objects));
        scratch.make(format, git_dir, &objects).await?;
        Ok(scratch)
    }

    async fn make(&mut self, format: &str, git_dir: &Path, objects: &Path) -> Result<()> {
        std::fs::create_dir_all(&self.dir).map_err(Error::io(format!("making {}", self.dir.display())))?;
        Git::at(&self.dir, "init")
            .args(["--quiet", "--bare", "--template=", &format!("--object-format={format}"), "."])
            .bytes()
            .await?;
        let head = Git::at(&self.work_tree, "rev-parse").args(["--verify", "--quiet", "HEAD^{commit}"]);
        let head = head.output().await?;
        let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        let borrowed = std::fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
        let own = format!("{}\n", objects.display());
        // What the mirror has stays; what is only in the tree's own store may be pruned by whoever works there.
        self.borrow(if borrowed.is_empty() { &own } else { &borrowed })?;
        if !head.is_empty() && self.git("cat-file").args(["-e", &head]).bytes().await.is_err() {
            self.borrow(&format!("{borrowed}{own}"))?;
        }
        let _ = std::fs::copy(git_dir.join("shallow"), self.dir.join("shallow"));
        self.git("symbolic-ref").args(["HEAD", &self.reference]).bytes().await?;
        if !head.is_empty() {
            self.take_index(git_dir, &head).await?;
            self.remember(&head).await?;
            self.start = Some(head);
        }
        Ok(())
    }

    fn borrow(&self, from: &str) -> Result<()> {
        let info = self.dir.join("objects/info");
        std::fs::create_dir_all(&info)
            .and_then(|()| std::fs::write(info.join("alternates"), from))
            .map_err(Error::io("writing where objects are borrowed"))
    }

    /// The tree's own index says which files are as they were checked out, without a look into them. One that holds
    /// anything else than the commit is not taken.
    async fn take_index(&self, git_dir: &Path, head: &str) -> Result<()> {
        let index = self.dir.join("index");
        if std::fs::copy(git_dir.join("index"), &index).is_ok() {
            let wanted = self.git("rev-parse").arg(format!("{head}^{{tree}}")).text().await?;
            if self.git("write-tree").text().await.is_ok_and(|has| has == wanted) {
                return Ok(());
            }
            let _ = std::fs::remove_file(&index);
        }
        self.git("read-tree").arg(head).limit(LONG).bytes().await.map(drop)
    }

    /// Learns how the files lie on the disk, so that later looks need not read them.
    pub async fn refresh(&self, limit: Duration) -> Result<()> {
        // It says by its exit status that something differs, which a look will find.
        self.git("update-index").args(["-q", "--refresh"]).limit(limit).output().await.map(drop)
    }

    /// How many files the index holds.
    pub fn entries(&self) -> usize {
        use std::io::Read as _;
        let mut head = [0_u8; 12];
        let read =
            std::fs::File::open(self.dir.join("index")).and_then(|mut file| file.read_exact(&mut head));
        let count = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        if read.is_ok() { usize::try_from(count).unwrap_or(usize::MAX) } else { 0 }
    }

    /// The commit that the first tree follows.
    pub fn start(&self) -> Option<&str> {
        self.start.as_deref()
    }

    /// What is not as it was at the last [`Self::stage`]. Ignored files are left out, and so is what lies in other
    /// repositories.
    pub async fn look(&self) -> Result<Vec<Seen>> {
        self.clear_locks();
        let call = self.git("status").args(["--porcelain", "-z", "--untracked-files=all", "--no-renames"]);
        // A submodule would be looked into by a git that obeys the submodule's own settings.
        let call = call.args(["--ignore-submodules=all", "--no-ahead-behind"]);
        let call = call.env("GIT_OPTIONAL_LOCKS", "1").max_output(LOOK_MAX_BYTES);
        let said = call.bytes().await?;
        Ok(said.split(|byte| *byte == 0).filter_map(read_status).collect())
    }

    /// Takes files as they are now, forgets others, and gives the tree of everything.
    pub async fn stage(&self, taken: &[&[u8]], forgotten: &[&[u8]]) -> Result<String> {
        if !taken.is_empty() && self.update(&["--add", "--remove", "--replace"], taken).await.is_err() {
            // Attributes that cannot be obeyed, such as an encoding that a file does not have.
            let info = self.dir.join("info");
            std::fs::create_dir_all(&info)
                .and_then(|()| std::fs::write(info.join("attributes"), BY_THE_BYTE))
                .map_err(Error::io("writing attributes"))?;
            self.clear_locks();
            self.update(&["--add", "--remove", "--replace"], taken).await?;
        }
        if !forgotten.is_empty() {
            self.update(&["--force-remove"], forgotten).await?;
        }
        self.tree().await
    }

    async fn update(&self, how: &[&str], paths: &[&[u8]]) -> Result<()> {
        let mut list = paths.join(&0);
        list.push(0);
        self.git("update-index").args(how).args(["-z", "--stdin"]).stdin(list).bytes().await.map(drop)
    }

    /// The tree of everything that was taken so far.
    pub async fn tree(&self) -> Result<String> {
        self.git("write-tree").text().await
    }

    /// What differs between two trees that were taken here.
    pub async fn changes(&self, from: &str, to: &str, patch_max_bytes: u64) -> Result<Changes> {
        between(self.git("diff-tree"), [from, to], &[], patch_max_bytes).await
    }

    /// A commit of a tree.
    pub async fn commit(&self, tree: &str, parent: Option<&str>, message: &str) -> Result<String> {
        let parent = parent.map(|parent| ["-p", parent]);
        let mut call = self.git("commit-tree").arg(tree).args(parent.into_iter().flatten());
        for who in ["AUTHOR", "COMMITTER"] {
            call = call.env(&format!("GIT_{who}_NAME"), NAME).env(&format!("GIT_{who}_EMAIL"), EMAIL);
        }
        call.stdin(message).text().await
    }

    /// Pushes a commit to its reference at an address. It is remembered before: whoever is killed meanwhile is
    /// followed by one that goes on from it, and never drops what has arrived. What was refused is forgotten again.
    pub async fn push(
        &self,
        url: &str,
        commit: &str,
        settings: &[(String, String)],
        limit: Duration,
    ) -> Result<()> {
        let target = format!("+{commit}:{}", self.reference);
        let mut call =
            self.git("push").args(["--quiet", "--no-verify", "--recurse-submodules=no", "--", url]);
        call = call.arg(target).limit(limit);
        for (name, value) in settings {
            call = call.env(name, value);
        }
        let before = self.resolve(&self.reference).await.ok();
        self.remember(commit).await?;
        let pushed = call.bytes().await.map(drop);
        if let (Err(_), Some(before)) = (&pushed, before) {
            self.remember(&before).await?;
        }
        pushed
    }

    async fn remember(&self, commit: &str) -> Result<()> {
        self.git("update-ref").args([&self.reference, commit]).bytes().await.map(drop)
    }

    /// The commit that a name stands for here.
    pub async fn resolve(&self, name: &str) -> Result<String> {
        let call = self.git("rev-parse").args(["--verify", "--quiet", &format!("{name}^{{commit}}")]);
        call.text().await
    }

    /// The address that the work tree's `origin` has.
    pub async fn origin(work_tree: &Path) -> Result<String> {
        Git::at(work_tree, "config").args(["--get", "remote.origin.url"]).text().await
    }

    /// Nobody else works here: a lock was left by a git that was killed.
    fn clear_locks(&self) {
        let _ = std::fs::remove_file(self.dir.join("index.lock"));
    }

    fn git(&self, operation: &str) -> Git {
        let settings = [
            ("core.bare", "false".into()),
            ("core.excludesFile", self.excludes.display().to_string()),
            ("core.safecrlf", "false".into()),
        ];
        let mut call = Git::with_settings(&self.work_tree, &settings, operation);
        call = call.env("GIT_DIR", &self.dir).env("GIT_WORK_TREE", &self.work_tree);
        call.any_memory()
    }
}

/// `XY <path>`: of the two letters the second says how the file differs from the index.
fn read_status(entry: &[u8]) -> Option<Seen> {
    let (letters, path) = (entry.get(..2)?, entry.get(3..)?);
    let known = letters != b"??";
    (letters[1] != b' ' && !path.is_empty()).then(|| Seen { path: path.to_owned(), known })
}
