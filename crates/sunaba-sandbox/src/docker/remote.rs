//! Sandboxes of a daemon on another machine: volumes instead of directories, and the worker brought there.
//!
//! The worker lies in one volume for each version of it, which sandboxes see read-only; it is filled through a
//! container that is made for that and never runs. Volumes of other versions go when nobody uses them any more.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{ContainerCreateBody, HostConfig, VolumeCreateRequest};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveContainerOptionsBuilder, RemoveVolumeOptions, UploadToContainerOptionsBuilder,
};
use sunaba_types::shim::{HOME_INSIDE, WORKER_INSIDE, WORKSPACE_INSIDE};
use sunaba_types::{BlobHash, SandboxId};
use tokio::sync::OnceCell;

use super::engine::{Engine, status};
use super::spec::{self, INSTANCE_LABEL, SANDBOX_LABEL};
use super::tape;
use crate::Error;

/// The user inside, where no host user is chosen for it.
pub(super) const UID: u32 = 1000;
/// Where the worker's volume appears.
const WORKER_DIR: &str = "/opt/sunaba";
/// Marks a worker's volume. It belongs to no server: all that send the same worker share it.
const WORKER_LABEL: &str = "io.sunaba.worker";
/// How much of the hash names the volume.
const HASH_CHARS: usize = 16;

/// The worker program, read once.
#[derive(Debug, Default)]
pub(super) struct Cargo(OnceCell<(String, Vec<u8>)>);

impl Cargo {
    /// The volume's name and the program.
    pub(super) async fn get(&self, program: &Path) -> Result<&(String, Vec<u8>), Error> {
        let what = || format!("read the worker program {}", program.display());
        self.0
            .get_or_try_init(|| async {
                let bytes = tokio::fs::read(program).await.map_err(Error::backend(what()))?;
                let hash = BlobHash::of(&bytes).to_string();
                Ok((format!("sunaba-worker-{}", &hash[..HASH_CHARS]), bytes))
            })
            .await
    }
}

/// The sandbox's two volumes and where they appear.
pub(super) fn volumes(id: &SandboxId) -> [(String, &'static str); 2] {
    let name = spec::name(id);
    [(format!("{name}-workspace"), WORKSPACE_INSIDE), (format!("{name}-home"), HOME_INSIDE)]
}

/// Makes the sandbox's volumes, or finds them.
pub(super) async fn make_volumes(engine: &Engine, id: &SandboxId, instance: &str) -> Result<(), Error> {
    let docker = engine.docker().await?;
    for (name, _) in volumes(id) {
        let request = VolumeCreateRequest {
            name: Some(name),
            labels: Some(spec::labels(id, instance)),
            ..VolumeCreateRequest::default()
        };
        engine.ask("make a volume", docker.create_volume(request)).await?;
    }
    Ok(())
}

/// Makes the volume that the worker is brought into, or finds it.
pub(super) async fn make_worker_volume(engine: &Engine, name: &str) -> Result<(), Error> {
    let docker = engine.docker().await?;
    let request = VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(HashMap::from([(WORKER_LABEL.to_owned(), name.to_owned())])),
        ..VolumeCreateRequest::default()
    };
    engine.ask("make the worker's volume", docker.create_volume(request)).await.map(drop)
}

/// Removes the volumes of other workers than this one that no container uses. A server that still sends one of
/// them makes its volume again.
pub(super) async fn remove_other_workers(engine: &Engine, current: &str) -> Result<(), Error> {
    let docker = engine.docker().await?;
    let wanted =
        HashMap::from([("label", vec![WORKER_LABEL.to_owned()]), ("dangling", vec!["true".to_owned()])]);
    let options = ListVolumesOptionsBuilder::new().filters(&wanted).build();
    let listed = engine.ask("list the workers' volumes", docker.list_volumes(Some(options))).await?;
    for volume in listed.volumes.unwrap_or_default().into_iter().filter(|volume| volume.name != current) {
        match docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>).await {
            Ok(()) => {}
            // Somebody was quicker, or began to use it.
            Err(error) if matches!(status(&error), Some(404 | 409)) => {}
            Err(error) => return Err(super::engine::failed("remove an old worker's volume")(error)),
        }
    }
    Ok(())
}

/// Removes the sandbox's volumes; what is not there is no error.
pub(super) async fn remove_volumes(engine: &Engine, id: &SandboxId) -> Result<(), Error> {
    let docker = engine.docker().await?;
    for (name, _) in volumes(id) {
        engine.find("remove a volume", docker.remove_volume(&name, None::<RemoveVolumeOptions>)).await?;
    }
    Ok(())
}

/// Every sandbox that has a volume here.
pub(super) async fn list(engine: &Engine, instance: &str) -> Result<Vec<SandboxId>, Error> {
    let docker = engine.docker().await?;
    let wanted = HashMap::from([("label", vec![format!("{INSTANCE_LABEL}={instance}")])]);
    let options = ListVolumesOptionsBuilder::new().filters(&wanted).build();
    let listed = engine.ask("list the volumes", docker.list_volumes(Some(options))).await?;
    let ids = listed.volumes.unwrap_or_default().into_iter().filter_map(|volume| {
        volume.labels.get(SANDBOX_LABEL).and_then(|id| SandboxId::parse(id.as_str()).ok())
    });
    Ok(ids.collect())
}

/// The name of the container through which things are brought; it never runs.
pub(super) fn helper(id: &SandboxId) -> String {
    format!("{}-bring", spec::name(id))
}

/// Gives the sandbox's directories to its user, and sees to it that the worker's volume holds the worker.
pub(super) async fn furnish(
    engine: &Engine,
    id: &SandboxId,
    (instance, image): (&str, &str),
    (volume, program): &(String, Vec<u8>),
) -> Result<(), Error> {
    let docker = engine.docker().await?;
    let helper = helper(id);
    let own = volumes(id);
    let own = own.iter().map(|(name, inside)| spec::volume(name, inside, true));
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![WORKER_INSIDE.to_owned()]),
        labels: Some(spec::labels(id, instance)),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(own.chain([spec::volume(volume, WORKER_DIR, true)]).collect()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    remove_container(engine, &helper).await?;
    let options = CreateContainerOptionsBuilder::new().name(&helper).build();
    engine.ask("make a container to bring things", docker.create_container(Some(options), body)).await?;
    let brought = bring(engine, &helper, program).await;
    remove_container(engine, &helper).await?;
    brought
}

async fn bring(engine: &Engine, helper: &str, program: &[u8]) -> Result<(), Error> {
    let own = [WORKSPACE_INSIDE, HOME_INSIDE].map(|inside| inside.trim_start_matches('/'));
    upload(engine, helper, "/", tape::directories(&own, UID, 0o700)?).await?;
    if holds_worker(engine, helper, program.len()).await? {
        return Ok(());
    }
    let name = Path::new(WORKER_INSIDE).file_name().unwrap_or_default().to_string_lossy();
    upload(engine, helper, WORKER_DIR, tape::file(&name, program, 0, 0o755)?).await?;
    if holds_worker(engine, helper, program.len()).await? {
        return Ok(());
    }
    Err(Error::Unsupported("the daemon did not keep the worker that was sent to it".to_owned()))
}

async fn holds_worker(engine: &Engine, container: &str, length: usize) -> Result<bool, Error> {
    let docker = engine.docker().await?;
    let options = ContainerArchiveInfoOptionsBuilder::new().path(WORKER_INSIDE).build();
    let seen = engine
        .find("look for the worker", docker.get_container_archive_info(container, Some(options)))
        .await?;
    Ok(seen.is_some_and(|seen| usize::try_from(seen.size) == Ok(length)))
}

/// Where the worker's volume goes in a sandbox.
pub(super) fn worker_mount(volume: &str) -> bollard::models::Mount {
    spec::volume(volume, WORKER_DIR, false)
}

/// Unpacks a tar in a container that may or may not run.
pub(super) async fn upload(engine: &Engine, container: &str, at: &str, tar: Vec<u8>) -> Result<(), Error> {
    let docker = engine.docker().await?;
    let options = UploadToContainerOptionsBuilder::new().path(at).build();
    let body = bollard::body_full(tar.into());
    engine.ask("write into the container", docker.upload_to_container(container, Some(options), body)).await
}

/// Removes a container with its nameless volumes; one that is not there is no error.
pub(super) async fn remove_container(engine: &Engine, name: &str) -> Result<(), Error> {
    let docker = engine.docker().await?;
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if matches!(status(&error), Some(404)) => Ok(()),
        Err(error) => Err(super::engine::failed("remove the container")(error)),
    }
}
