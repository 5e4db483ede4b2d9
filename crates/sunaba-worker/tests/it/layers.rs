//! Trees laid under the workspace and the home.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sunaba_sandbox::{Error, Layer, Provider as _, StartRequest};
use sunaba_types::SandboxId;
use tokio::time::timeout;

use crate::support::{Host, PATIENCE, shell};
use crate::trial;

/// A layer as a server makes it: of its own user, for all to read and to change their copies of.
fn make_layer(dir: &Path) -> Vec<Layer> {
    let files = [
        ("workspace/node_modules/a/index.js", "one"),
        ("workspace/node_modules/b/index.js", "two"),
        ("workspace/kept", "lower"),
        ("workspace/both", "lower"),
        ("home/.cache/tool/data", "cached"),
    ];
    for (name, content) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    open_to_all(dir);
    [("workspace", "/workspace"), ("home", "/home/agent")]
        .map(|(name, target)| Layer {
            source: dir.join(name).to_str().unwrap().to_owned(),
            target: target.to_owned(),
        })
        .into()
}

fn open_to_all(path: &Path) {
    let directory = path.is_dir();
    std::fs::set_permissions(path, PermissionsExt::from_mode(if directory { 0o777 } else { 0o666 })).unwrap();
    if directory {
        for entry in std::fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

fn listing(dir: &Path) -> String {
    let script = "find . -printf '%p %m %U %s %T@\\n' | sort; find . -type f | sort | xargs cat";
    let output = Command::new("/bin/sh").args(["-c", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

const SCRIPT: &str = r#"set -eu
echo "$(cat kept) $(cat both) $(cat node_modules/a/index.js) $(cat $HOME/.cache/tool/data)"
echo changed > kept
echo more >> $HOME/.cache/tool/data
rm -rf node_modules
[ ! -e node_modules ]
mkdir -p node_modules/c
echo three > node_modules/c/index.js
ls node_modules
mkdir other; mv other renamed
mv $HOME/.cache $HOME/.moved
cat $HOME/.moved/tool/data
cat kept
"#;
const SAID: &str = "lower own one cached\nc\ncachedmore\nchanged\n";

async fn run(host: &Host, layers: Vec<Layer>, prepare: impl FnOnce(&SandboxId)) -> String {
    let id = SandboxId::generate();
    let places =
        host.provider.create(&id, &sunaba_sandbox::CreateRequest::default()).await.unwrap().here().unwrap();
    trial::put(&places, "both", "own");
    prepare(&id);
    host.provider.start(&id, StartRequest { layers, ..shell(SCRIPT) }).await.unwrap();
    let exit = timeout(PATIENCE, host.provider.wait(&id)).await.unwrap().unwrap();
    let output = String::from_utf8(host.provider.output(&id, 0, 10_000).await.unwrap()).unwrap();
    assert_eq!(exit.code, Some(0), "{output}");
    assert_eq!(
        std::fs::read_to_string(places.workspace.join("kept")).unwrap(),
        "changed\n",
        "the copy is its own"
    );
    host.provider.delete(&id).await.unwrap();
    assert!(!host.sandbox_dir(&id).exists(), "nothing of it is left");
    output
}

#[tokio::test]
async fn a_sandbox_sees_both_and_changes_only_its_own() {
    let host = Host::new().await;
    let dir = host.dir.path().join("layers");
    let layers = make_layer(&dir);
    let before = listing(&dir);
    for _ in 0..2 {
        assert_eq!(run(&host, layers.clone(), |_| {}).await, SAID, "the second finds what the first found");
    }
    assert_eq!(listing(&dir), before, "the layer is never changed");
}

#[tokio::test]
async fn where_nothing_can_be_mounted_layers_are_copied() {
    let host = Host::new().await;
    let dir = host.dir.path().join("layers");
    let layers = make_layer(&dir);
    let before = listing(&dir);
    let output = run(&host, layers, |id| {
        // A file in place of overlayfs's own directory.
        let found = Command::new("find")
            .arg(host.sandbox_dir(id))
            .args(["-name", "workspace", "-printf", "%h"])
            .output()
            .unwrap();
        let beside = String::from_utf8(found.stdout).unwrap();
        std::fs::write(Path::new(&beside).join("overlay-work"), "").unwrap();
    })
    .await;
    assert!(output.contains("layers are copied"), "{output}");
    assert!(output.ends_with(SAID), "{output}");
    assert_eq!(listing(&dir), before, "the layer is never changed");
}

#[tokio::test]
async fn many_sandboxes_share_a_layer_without_seeing_each_other() {
    let host = Host::new().await;
    let layers = make_layer(&host.dir.path().join("layers"));
    let run = |number: usize| {
        let script = format!("echo {number} > kept; sleep 0.3; cat kept; ls | wc -l");
        trial::run(&host.provider, StartRequest { layers: layers.clone(), ..shell(&script) }, |_| {})
    };
    let (zero, one, two) = tokio::join!(run(0), run(1), run(2));
    for (number, result) in [zero, one, two].into_iter().enumerate() {
        let (exit, output) = result.unwrap();
        assert_eq!((exit.code, output), (Some(0), format!("{number}\n3\n")));
    }
}

#[tokio::test]
async fn a_layer_that_is_not_there_is_an_error_that_names_it() {
    let host = Host::new().await;
    let missing = Layer { source: "/no/such/layer".to_owned(), target: "/workspace".to_owned() };
    let elsewhere = Layer { source: "/usr".to_owned(), target: "/opt".to_owned() };
    for (layer, words) in [(missing, "/no/such/layer"), (elsewhere, "/opt")] {
        let request = StartRequest { layers: vec![layer], ..shell("true") };
        let error = trial::run(&host.provider, request, |_| {}).await.unwrap_err();
        assert!(matches!(error, Error::StartFailed { .. }) && error.to_string().contains(words), "{error}");
    }
}
