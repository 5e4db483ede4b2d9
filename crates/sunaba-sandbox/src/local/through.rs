//! Files of a sandbox that is made of layers, through a process inside: only there are the layers one tree.

use std::time::Duration;

use sunaba_types::SandboxId;
use sunaba_types::shim::Spec;

use super::LocalProvider;
use super::files::Inside;
use crate::{Error, ExecRequest, Provider as _, Status};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Resolves the path and its links inside, and refuses what leaves the top; then reads or writes.
const SCRIPT: &str = r#"set -eu
top=$1 path=$2 mode=$3
real=$(readlink -m -- "$path")
[ "$mode" = read ] || real=$(readlink -m -- "${path%/*}")/${path##*/}
case $real in "$top"/*) ;; *) echo "leads out of the sandbox's own directories" >&2; exit 3;; esac
if [ "$mode" = read ]; then
    [ -e "$real" ] || { echo "there is no such file" >&2; exit 3; }
    [ -f "$real" ] || { echo "is not a regular file" >&2; exit 3; }
    exec head -c "$4" -- "$real"
fi
mkdir -p -- "${real%/*}"
new=$(mktemp -- "${real%/*}/.sunaba-XXXXXX")
cat >"$new"
chmod "$mode" "$new"
[ -d "$real" ] && { rm -f "$new"; echo "is a directory" >&2; exit 3; }
mv -fT -- "$new" "$real"
"#;

impl LocalProvider {
    /// Whether only a process inside sees this file as the sandbox does.
    pub(super) async fn must_ask_inside(&self, id: &SandboxId, path: &Inside) -> Result<bool, Error> {
        let spec: Option<Spec> = self
            .layout(id)
            .read(sunaba_types::shim::SPEC_FILE)
            .map_err(Error::backend("read the sandbox's spec"))?;
        let layered = spec.is_some_and(|spec| spec.layers.iter().any(|layer| layer.target == path.top()));
        Ok(layered && matches!(self.status(id).await?, Status::Running))
    }
}

pub(super) async fn read(
    provider: &LocalProvider,
    id: &SandboxId,
    path: &Inside,
    limit: usize,
) -> Result<Vec<u8>, Error> {
    run(provider, id, path, "read", limit, Vec::new()).await
}

pub(super) async fn write(
    provider: &LocalProvider,
    id: &SandboxId,
    path: &Inside,
    content: &[u8],
    mode: u32,
) -> Result<(), Error> {
    run(provider, id, path, &format!("{:o}", mode & 0o777), 0, content.to_owned()).await.map(drop)
}

async fn run(
    provider: &LocalProvider,
    id: &SandboxId,
    path: &Inside,
    mode: &str,
    limit: usize,
    input: Vec<u8>,
) -> Result<Vec<u8>, Error> {
    let words = ["/bin/sh", "-c", SCRIPT, "sh", path.top(), path.given(), mode, &limit.to_string()];
    let request = ExecRequest {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        env: std::collections::BTreeMap::new(),
        input,
        timeout: TIMEOUT,
        output_max: limit.max(1024),
    };
    let result = provider.exec(id, request).await?;
    if result.code == Some(0) {
        return Ok(result.stdout);
    }
    let reason = match (result.timed_out, String::from_utf8_lossy(&result.stderr).trim()) {
        (true, _) => format!("took longer than {} s", TIMEOUT.as_secs()),
        (false, "") => "could not be reached inside the sandbox".to_owned(),
        (false, words) => words.to_owned(),
    };
    Err(Error::BadPath { path: path.given().to_owned(), reason })
}
