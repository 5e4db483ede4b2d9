//! From a pending row to a running worker.
//!
//! Every step can be repeated; when one fails the driver deletes what was made. What git fetches has git's own
//! limits, what the store records waits for the store, a setup has its own deadline; the rest has the deadline
//! for creating.

use std::sync::Arc;

use serde_json::json;
use sunaba_engine::SandboxTrigger;
use sunaba_git::{TreeFile, WorkspaceSpec, prepare_workspace};
use sunaba_sandbox::{CreateRequest, HostPlaces, Prepared, Provider, StartRequest};
use sunaba_store::{NewToken, SandboxChange};
use sunaba_types::shim::{Bind, HOME_INSIDE, Layer, WORKER_INSIDE, WORKSPACE_INSIDE};
use sunaba_types::{Egress, Sandbox, SandboxState, TokenKind};
use tokio::sync::Semaphore;

use crate::environment::{self, GIT_REMOTE_INSIDE, MIRROR_OBJECTS_INSIDE, Told};
use crate::patience::patiently;
use crate::record::record;
use crate::repository_file::{self, RepositoryFile};
use crate::setup::{self, Laid};
use crate::work::{self, Base, Work};
use crate::{Error, Parts, call_back, policy};

/// How many of a kind may go on at once.
#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) starts: Semaphore,
    pub(crate) setups: Semaphore,
}

/// One sandbox on its way up.
#[derive(Debug)]
pub(crate) struct BringUp<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) gates: &'a Gates,
    pub(crate) provider: &'a Arc<dyn Provider>,
    pub(crate) sandbox: &'a Sandbox,
}

/// What was decided about a sandbox before it is made.
#[derive(Debug)]
struct Decided {
    work: Work,
    base: Base,
    files: Vec<TreeFile>,
    file: RepositoryFile,
    request: CreateRequest,
    toolchains: Vec<String>,
    binds: Vec<Bind>,
    root_fs: Option<String>,
}

impl BringUp<'_> {
    /// Makes the branch, the clone, the token and the door, and starts the worker.
    pub(crate) async fn run(&self) -> Result<(), Error> {
        let work = work::find(self.parts, self.sandbox).await?;
        work::wait_for_home(self.parts, &work.project.id).await?;
        let (decided, prepared) = {
            let _permit = self.gates.starts.acquire().await;
            self.begin().await?;
            let request = policy::create_request(&self.parts.settings, self.sandbox, &work.project);
            self.provider.fetch(&request).await?;
            // Neither needs the other, and each takes its time: git its programs, the provider its disk. Both are
            // waited for even if one fails, so that nothing is still being made when what was made is deleted.
            let made = request.clone();
            let (decided, prepared) = tokio::join!(self.decide(work, request), self.create(&made));
            (decided?, prepared?)
        };
        let egress = policy::egress(self.parts, self.sandbox, &decided.work.project, &decided.file).await?;
        let laid = self.set_up(&decided, &egress).await?;
        let change = SandboxChange { egress: Some(egress), ..SandboxChange::default() };
        patiently(|| self.parts.store.change_sandbox(&self.sandbox.id, change.clone())).await?;
        let token = self.mint_token().await?;
        let _permit = self.gates.starts.acquire().await;
        let deadline = self.parts.settings.creating_deadline;
        tokio::time::timeout(deadline, self.start(&decided, &prepared, laid.as_ref(), &token))
            .await
            .map_err(|_| Error::TooSlow { what: "bringing up the sandbox", seconds: deadline.as_secs() })?
    }

    /// Refuses a host that is weaker than asked for before anything is made.
    async fn begin(&self) -> Result<(), Error> {
        let isolation = policy::isolation(&**self.provider, self.sandbox).await?;
        let id = &self.sandbox.id;
        if self.sandbox.state != SandboxState::Pending {
            // The server died half-way through an earlier try: begin with clean ground.
            return Ok(self.provider.delete(id).await?);
        }
        let change = SandboxChange {
            trigger: Some(SandboxTrigger::Create),
            provider_ref: Some(id.to_string()),
            isolation: Some(isolation.level()),
            ..SandboxChange::default()
        };
        match patiently(|| self.parts.store.change_sandbox(id, change.clone())).await {
            // Nobody else takes this step. An earlier try whose answer was lost may have taken it.
            Err(sunaba_store::Error::Conflict { .. }) if self.is_creating().await? => Ok(()),
            taken => Ok(taken.map(drop)?),
        }
    }

    async fn is_creating(&self) -> Result<bool, Error> {
        let state = patiently(|| self.parts.store.sandbox_state(&self.sandbox.id)).await?;
        Ok(state == SandboxState::Creating)
    }

    async fn create(&self, request: &CreateRequest) -> Result<Prepared, Error> {
        let deadline = self.parts.settings.creating_deadline;
        let created = tokio::time::timeout(deadline, self.provider.create(&self.sandbox.id, request)).await;
        let too_slow = |_| Error::TooSlow { what: "making the sandbox", seconds: deadline.as_secs() };
        Ok(created.map_err(too_slow)??)
    }

    async fn decide(&self, work: Work, request: CreateRequest) -> Result<Decided, Error> {
        let (parts, sandbox) = (self.parts, self.sandbox);
        let base = work::lay_base(parts, sandbox, &work).await?;
        let files = base.mirror.files_at(&base.commit).await?;
        let file = repository_file::read(&base.mirror, &files).await?;
        let (toolchains, refused) = toolchains(&work.project.settings.toolchains, &file);
        self.warn(&file.unknown, &refused).await;
        let mut binds = vec![Bind {
            source: base.mirror.objects_dir().to_string_lossy().into_owned(),
            target: MIRROR_OBJECTS_INSIDE.to_owned(),
            writable: false,
        }];
        binds.extend(toolchains.iter().map(|path| Bind {
            source: path.clone(),
            target: path.clone(),
            writable: false,
        }));
        let root_fs = work.project.settings.root_fs.clone().or_else(|| parts.settings.root_fs.clone());
        Ok(Decided { work, base, files, file, request, toolchains, binds, root_fs })
    }

    /// Says what of the repository's wishes was left out.
    async fn warn(&self, unknown: &[String], refused: &[String]) {
        let refused =
            refused.iter().map(|path| format!("toolchain {path} is not among those of the project"));
        let warnings: Vec<String> = unknown.iter().cloned().chain(refused).collect();
        if !warnings.is_empty() {
            let payload = json!({ "file": repository_file::NAME, "warnings": warnings });
            record(self.parts, &self.sandbox.id, "sandbox.warning", &payload).await;
        }
    }

    async fn set_up(&self, decided: &Decided, egress: &Egress) -> Result<Option<Laid>, Error> {
        let Decided { work, base, files, file, request, toolchains, binds, root_fs } = decided;
        let command = work.project.settings.setup_command.as_deref().or(file.setup.as_deref());
        // What the source does not have may be an agent's.
        let agents = (!base.is_of_source).then_some(egress);
        let wanted = setup::Wanted {
            parts: self.parts,
            provider: self.provider,
            id: &self.sandbox.id,
            project: &work.project,
            mirror: &base.mirror,
            branch: &base.branch,
            base: &base.commit,
            files,
            base_is_of_source: base.is_of_source,
            command,
            request,
            root_fs: root_fs.as_deref(),
            toolchains,
            binds,
            egress: policy::setup_egress(&self.parts.settings, &work.project, file, agents),
            gate: &self.gates.setups,
        };
        Box::pin(setup::prepare(&wanted)).await
    }

    /// Furnishes the sandbox and starts the worker in it.
    async fn start(
        &self,
        decided: &Decided,
        prepared: &Prepared,
        laid: Option<&Laid>,
        token: &str,
    ) -> Result<(), Error> {
        let id = &self.sandbox.id;
        let mut request = StartRequest {
            binds: decided.binds.clone(),
            root_fs: decided.root_fs.clone(),
            command: vec![WORKER_INSIDE.to_owned(), "work".to_owned()],
            ..StartRequest::default()
        };
        let mut tunnel_url = None;
        match prepared {
            Prepared::Here(places) => {
                request.layers = laid.map(layers).unwrap_or_default();
                self.furnish(decided, laid, places).await?;
            }
            Prepared::Elsewhere => {
                request.binds.clear();
                tunnel_url = Some(self.tunnel_url(token)?);
            }
        }
        let told = Told {
            branch: &decided.base.branch,
            left: decided.base.left,
            token,
            toolchains: &decided.toolchains,
            check: decided.file.check.as_deref(),
            tunnel_url,
        };
        request.env = environment::worker_env(&self.parts.settings, self.sandbox, &decided.work, &told);
        self.provider.start(id, request).await?;
        match prepared {
            Prepared::Here(_) => Ok(()),
            Prepared::Elsewhere => call_back::wait(self.parts, &**self.provider, id).await,
        }
    }

    /// Clones into the workspace and opens the door.
    async fn furnish(
        &self,
        decided: &Decided,
        laid: Option<&Laid>,
        places: &HostPlaces,
    ) -> Result<(), Error> {
        let remote = format!("{GIT_REMOTE_INSIDE}/{}", decided.work.project.id);
        let spec = WorkspaceSpec {
            branch: &decided.base.branch,
            commit: &decided.base.commit,
            alternates_inside: MIRROR_OBJECTS_INSIDE,
            remote_url_inside: &remote,
            owner: places.owner_uid.map(|uid| (uid, uid)),
            left_out: laid.map(|laid| laid.tops.as_slice()).unwrap_or_default(),
        };
        prepare_workspace(&decided.base.mirror, &places.workspace, spec).await?;
        self.parts.doors.open(&self.sandbox.id, &places.door_dir).await.map_err(Error::Door)
    }

    fn tunnel_url(&self, token: &str) -> Result<String, Error> {
        let base = self.parts.settings.public_url.as_deref().ok_or_else(|| {
            Error::Missing(format!(
                "a {} sandbox on another machine reaches this server by its public address; start the server \
                 with --public-url (or set public_url)",
                self.sandbox.provider
            ))
        })?;
        Ok(format!("{}/w/{token}/tunnel", base.trim_end_matches('/')))
    }

    async fn mint_token(&self) -> Result<String, Error> {
        let sandbox = self.sandbox;
        let (secret, hash) = (self.parts.mint_token)();
        let token = NewToken {
            hash,
            name: format!("sandbox {}", sandbox.id),
            kind: TokenKind::Sandbox,
            scopes: Vec::new(),
            projects: sandbox.project_id.clone().into_iter().collect(),
            sandbox_id: Some(sandbox.id.clone()),
            attempt: Some(sandbox.attempt),
            expires_at: None,
        };
        patiently(|| self.parts.store.create_token(token.clone())).await?;
        Ok(secret)
    }
}

/// The toolchains that the repository wants and the project allows; and those it wants in vain.
fn toolchains(allowed: &[String], file: &RepositoryFile) -> (Vec<String>, Vec<String>) {
    match &file.toolchains {
        None => (allowed.to_vec(), Vec::new()),
        Some(wanted) => wanted.iter().cloned().partition(|path| allowed.contains(path)),
    }
}

fn layers(laid: &Laid) -> Vec<Layer> {
    [(&laid.home, HOME_INSIDE), (&laid.workspace, WORKSPACE_INSIDE)]
        .into_iter()
        .map(|(source, target)| Layer {
            source: source.to_string_lossy().into_owned(),
            target: target.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_gets_only_toolchains_of_its_project() {
        let allowed = ["/opt/a".to_owned(), "/opt/b".to_owned()];
        let nothing_said = RepositoryFile::default();
        assert_eq!(toolchains(&allowed, &nothing_said), (allowed.to_vec(), Vec::new()));
        let file = RepositoryFile {
            toolchains: Some(vec!["/opt/b".to_owned(), "/etc".to_owned()]),
            ..RepositoryFile::default()
        };
        assert_eq!(toolchains(&allowed, &file), (vec!["/opt/b".to_owned()], vec!["/etc".to_owned()]));
    }
}
