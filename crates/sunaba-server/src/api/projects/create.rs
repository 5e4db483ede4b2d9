//! `POST /api/v1/projects`: makes a project, or gives the one that has this repository already.

use std::path::Path;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use sunaba_nodes::Where;
use sunaba_store::NewProject;
use sunaba_types::{Project, ProjectSettings};
use utoipa::ToSchema;

use super::remote;
use super::settings::{self, SettingsBody};
use crate::api::views::ProjectView;
use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Editor, Identity};
use crate::extract::{Fields, JsonBody, Text};
use crate::{ApiError, AppState};

pub(super) const NAME: Text = Text { min: 1, max: 200 };

/// A project to be made. One of `repo_path` and `repo_url` is needed.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct ProjectBody {
    /// What people call it; the repository's name when absent.
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// A repository on the server's own disk, as an absolute path.
    #[schema(max_length = 4096)]
    repo_path: Option<String>,
    /// A repository elsewhere; without a credential in it.
    #[schema(max_length = 2000)]
    repo_url: Option<String>,
    /// The branch that work starts from; the repository's own when absent.
    #[schema(min_length = 1, max_length = 200)]
    default_branch: Option<String>,
    /// Settings from the start; not those of a project that is there already.
    settings: Option<SettingsBody>,
}

/// Makes a project, or gives the one that has this repository already.
#[utoipa::path(post, path = "/api/v1/projects", tag = "projects", operation_id = "create_project",
    request_body = ProjectBody, responses((status = 200, body = ProjectView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Editor(identity): Editor,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let wanted = read(&state, &body)?;
    if !identity.is_admin()
        && let Some(held) = existing(&state, &identity, &wanted).await?
    {
        return ok(&ProjectView::of(&state, held).await?);
    }
    may_make(&state, &identity, &wanted)?;
    if let (false, Some(url)) = (identity.is_admin(), &wanted.repo_url) {
        remote::may_fetch(url).await?;
    }
    settings::check_places(&state, &identity, &ProjectSettings::default(), &wanted.settings).await?;
    let project = complete(wanted).await?;
    let project = state.store().ensure_project(project).await?;
    settle(&state, &project).await?;
    ok(&ProjectView::of(&state, project).await?)
}

/// A repository on a disk has its home where that disk is. The same path elsewhere is another repository.
async fn settle(state: &AppState, project: &Project) -> Result<(), ApiError> {
    let (Some(nodes), Some(path)) = (&state.parts.nodes, &project.repo_path) else { return Ok(()) };
    match nodes.home_of(&project.id).await? {
        Where::Here => Ok(()),
        Where::There(node) => Err(ApiError::new(
            StatusCode::CONFLICT,
            "repository_elsewhere",
            format!(
                "the path {path} is known as a repository on the machine of the node {node}; ask the server there, \
                 or give a repo_url that every node can reach"
            ),
        )),
    }
}

/// The project that is there already, if the caller may know of it. The disk is not asked.
async fn existing(
    state: &AppState,
    identity: &Identity,
    wanted: &Wanted,
) -> Result<Option<Project>, ApiError> {
    if settings::may_set(identity, state, &ProjectSettings::default(), &wanted.settings).is_err() {
        return Ok(None);
    }
    let path = wanted.repo_path.as_deref().map(|path| match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    });
    let held = state.store().find_project_at(path, wanted.repo_url.as_deref()).await?;
    Ok(held.filter(|project| identity.sees_project(Some(&project.id))))
}

/// What lies on the server's own disk is shown to sandboxes only where an administrator says so.
fn may_make(state: &AppState, identity: &Identity, wanted: &Wanted) -> Result<(), ApiError> {
    if identity.is_admin() {
        return Ok(());
    }
    if identity.visible_projects().is_some() {
        return Err(ApiError::forbidden("all_projects_only", "this token is limited to some projects"));
    }
    settings::may_set(identity, state, &ProjectSettings::default(), &wanted.settings)?;
    if wanted.repo_path.is_some() {
        return Err(ApiError::forbidden(
            "repo_path_admin_only",
            "only an admin token may make a project of a directory on the server",
        ));
    }
    Ok(())
}

/// What a body asks for.
#[derive(Debug)]
struct Wanted {
    name: Option<String>,
    repo_path: Option<String>,
    repo_url: Option<String>,
    default_branch: Option<String>,
    settings: ProjectSettings,
}

fn read(state: &AppState, body: &[u8]) -> Result<Wanted, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let name = fields.text("name", NAME);
    let repo_path = fields.text("repo_path", Text { min: 1, max: 4096 });
    let repo_url = fields.parsed("repo_url", check_url);
    let default_branch = fields.parsed("default_branch", check_branch);
    let given = settings::given(&mut fields);
    let settings = settings::merged(&mut fields, &ProjectSettings::default(), given);
    if fields.raw("repo_path").is_some() == fields.raw("repo_url").is_some() {
        fields.fault("repo_path", "give either repo_path or repo_url");
    }
    settings::check(&mut fields, state, &settings);
    fields.finish()?;
    Ok(Wanted { name, repo_path, repo_url, default_branch, settings })
}

/// Looks at the disk, and fills in what the body left out.
async fn complete(wanted: Wanted) -> Result<NewProject, ApiError> {
    let (repo_path, found_branch) = match wanted.repo_path {
        Some(path) => {
            let (path, branch) = look_at(path).await?;
            (Some(path), branch)
        }
        None => (None, None),
    };
    let address = repo_path.as_deref().or(wanted.repo_url.as_deref()).unwrap_or_default();
    Ok(NewProject {
        name: wanted.name.unwrap_or_else(|| last_segment(address)),
        repo_path,
        repo_url: wanted.repo_url,
        default_branch: wanted.default_branch.or(found_branch).unwrap_or_else(|| "main".to_owned()),
        settings: wanted.settings,
    })
}

pub(super) fn check_branch(branch: String) -> Result<String, &'static str> {
    let plain = !branch.is_empty()
        && branch.len() <= 200
        && !branch.starts_with(['-', '/', '.'])
        && !branch.ends_with(['/', '.'])
        && !branch.ends_with(".lock")
        && !["..", "//", "@{"].iter().any(|bad| branch.contains(bad))
        && !branch.chars().any(|c| c.is_control() || " ~^:?*[\\".contains(c));
    if plain { Ok(branch) } else { Err("is not a branch name") }
}

fn check_url(url: String) -> Result<String, &'static str> {
    let rest = ["https://", "http://", "ssh://", "git://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest else { return Err("must begin with https://, http://, ssh:// or git://") };
    if url.chars().count() > 2000 || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must have at most 2000 characters and no spaces");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() {
        return Err("must name a host");
    }
    let credential =
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':') || !url.starts_with("ssh://"));
    if credential { Err("must not hold a credential") } else { Ok(url) }
}

/// The repository's real path and its checked-out branch.
async fn look_at(path: String) -> Result<(String, Option<String>), ApiError> {
    let refuse = |why: &str| ApiError::field("repo_path", why);
    if !Path::new(&path).is_absolute() {
        return Err(refuse("must be an absolute path on the server's machine"));
    }
    let real = tokio::fs::canonicalize(&path).await.map_err(|_| refuse("there is no such directory"))?;
    let inside = real.join(".git");
    let git_dir = if tokio::fs::try_exists(&inside).await.unwrap_or(false) { inside } else { real.clone() };
    let head = tokio::fs::read_to_string(git_dir.join("HEAD")).await;
    // A linked work tree has a file at `.git`; it is a repository all the same.
    if head.is_err() && !git_dir.is_file() {
        return Err(refuse("is not a git repository"));
    }
    let branch = head.ok().and_then(|head| head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned));
    let text = real.into_os_string().into_string().map_err(|_| refuse("must be UTF-8"))?;
    Ok((text, branch))
}

fn last_segment(address: &str) -> String {
    let segment = address.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let name: String = segment.trim_end_matches(".git").chars().take(200).collect();
    if name.is_empty() { "project".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_credentials_are_refused() {
        for bad in ["https://u:p@h/x", "https://t@h/x", "ftp://h/x", "https:///x", "/local", "ssh://u:p@h/x"]
        {
            assert!(check_url(bad.to_owned()).is_err(), "{bad}");
        }
        for good in ["https://h/x.git", "ssh://git@h/x", "http://127.0.0.1:1/x"] {
            assert!(check_url(good.to_owned()).is_ok(), "{good}");
        }
        assert_eq!(last_segment("https://h/x.git"), "x");
    }

    #[test]
    fn branch_names_follow_git() {
        assert!(check_branch("release/1.0".into()).is_ok());
        for bad in ["", "-x", "a..b", "a b", "x.lock", "a~1", "@{x"] {
            assert!(check_branch(bad.into()).is_err(), "{bad}");
        }
    }
}
