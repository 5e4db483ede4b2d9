//! curl, git, npm, pip and cargo, unchanged: an allowed host works, another is refused with the rule.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::outside::Outside;
use super::*;

#[track_caller]
fn fine(ran: &Ran, words: &str) {
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.output.contains(words), "{ran:#?}");
}

fn allowed(outside: &Outside) -> (String, String) {
    ("allowed".to_owned(), format!("allow[0]: {}", outside.host()))
}

const CLOSED: &str = "preset none, and not in the one entry of allow";

fn refused() -> (String, String) {
    ("refused".to_owned(), CLOSED.to_owned())
}

#[tokio::test]
async fn curl_gets_plain_and_through_a_tunnel() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.put("file.txt", "hello outside\n");
    let url = outside.url();
    let script = format!(
        "set -e; curl -sS {url}/file.txt; curl -sSp {url}/file.txt
         curl -sS -o body -D head -w '%{{http_code}}\\n' http://other.test/x; cat body; grep -i x-sunaba-rule head
         curl -sSp http://other.test/x || echo \"curl ended with $?\""
    );
    let ran = world.run(EgressPreset::None, &[&outside.host()], &script).await;
    fine(&ran, "hello outside\nhello outside\n403\nSunaba refused egress to other.test:80.\n");
    assert!(ran.output.contains(&format!("Rule: {CLOSED}\n")), "{ran:#?}");
    assert!(ran.output.to_lowercase().contains(&format!("x-sunaba-rule: {CLOSED}")), "{ran:#?}");
    assert!(ran.output.contains("403") && ran.output.contains("curl ended with 56"), "{ran:#?}");
    assert_eq!(ran.decisions("registry.test"), [allowed(&outside), allowed(&outside)], "{ran:#?}");
    assert_eq!(ran.decisions("other.test"), [refused(), refused()], "the second one is counted: {ran:#?}");
}

#[tokio::test]
async fn git_clones() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.add_git();
    let script = format!(
        "set -e; git clone -q {}/repo.git r; cat r/hello.txt; git clone http://other.test/r.git s || echo failed $?",
        outside.url()
    );
    let ran = world.run(EgressPreset::None, &[&outside.host()], &script).await;
    fine(&ran, "hello from git\n");
    assert!(ran.output.contains("403") && ran.output.contains("failed 128"), "{ran:#?}");
    assert_eq!(ran.decisions("registry.test")[0], allowed(&outside));
    assert_eq!(ran.decisions("other.test")[0], refused());
}

#[tokio::test]
async fn npm_installs() {
    if !has("npm") {
        return;
    }
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.add_npm();
    let script = format!(
        "set -e; npm init -y >/dev/null; npm config set fetch-retries 0
         npm install --no-audit --no-fund --registry {}/npm/ tiny 2>&1; node -p 'require(\"tiny\")'
         npm install --no-audit --no-fund --registry http://other.test/ more 2>&1 || echo failed",
        outside.url()
    );
    let ran = world.run(EgressPreset::None, &[&outside.host()], &script).await;
    fine(&ran, "hello from npm\n");
    assert!(ran.output.contains("403") && ran.output.contains("failed\n"), "{ran:#?}");
    assert_eq!(ran.decisions("registry.test")[0], allowed(&outside));
    assert_eq!(ran.decisions("other.test")[0], refused());
}

#[tokio::test]
async fn pip_installs() {
    if !has("pip3") {
        return;
    }
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.add_pypi();
    let pip = "/usr/bin/python3 -m pip -q --disable-pip-version-check install --retries 0 --target t";
    let script = format!(
        "set -e; {pip} --trusted-host registry.test --index-url {}/simple/ tiny
         PYTHONPATH=t /usr/bin/python3 -c 'import tiny; print(tiny.WORDS)'
         {pip} --trusted-host other.test --index-url http://other.test/simple/ more 2>&1 || echo failed",
        outside.url()
    );
    let ran = world.run(EgressPreset::None, &[&outside.host()], &script).await;
    fine(&ran, "hello from pypi\n");
    assert!(ran.output.contains("failed\n"), "{ran:#?}");
    assert_eq!(ran.decisions("registry.test")[0], allowed(&outside));
    assert_eq!(ran.decisions("other.test")[0], refused());
}

#[tokio::test]
async fn cargo_fetches_and_builds() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).stderr(Stdio::null()).output();
    let sysroot = sysroot.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let Some(sysroot) = sysroot.ok().filter(|path| path.join("bin/cargo").exists()) else {
        println!("left out: no Rust toolchain that this user can read");
        return;
    };
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.add_crates();
    let source = sysroot.to_str().unwrap().to_owned();
    let bind = Bind { source, target: "/opt/rust".to_owned(), writable: false };
    let manifest =
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ntiny = \"1\"\n";
    let config = |host: &str| {
        format!(
            "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\nregistry = \"sparse+http://{host}/index/\"\n\
             [net]\nretry = 0\n"
        )
    };
    let (ours, theirs) = (config(&outside.host()), config("other.test"));
    let prepare = |places: &HostPlaces| {
        put(places, "Cargo.toml", manifest);
        put(places, "src/main.rs", "fn main() { println!(\"{}\", tiny::WORDS); }\n");
        put(places, "ours.toml", &ours);
        put(places, "theirs.toml", &theirs);
    };
    let script = "set -e; export PATH=/opt/rust/bin:$PATH; cargo --config ours.toml -q run
        rm -rf Cargo.lock target ~/.cargo; cargo --config theirs.toml fetch 2>&1 || echo failed";
    let ran = world.run_with(EgressPreset::None, &[&outside.host()], vec![bind], prepare, script).await;
    fine(&ran, "hello from crates\n");
    assert!(ran.output.contains("403") && ran.output.contains("failed\n"), "{ran:#?}");
    assert_eq!(ran.decisions("registry.test")[0], allowed(&outside));
    assert_eq!(ran.decisions("other.test")[0], refused());
}

#[tokio::test]
async fn a_server_that_is_away_for_a_moment_is_waited_for() {
    let (world, outside) = (World::new().await, Outside::new().await);
    outside.put("file.txt", "hello outside\n");
    let allow = sunaba_types::Egress { preset: EgressPreset::None, allow: vec![outside.host()] };
    let id = made::sandbox(&*world.store, allow).await.id;
    let provider = &world.host.provider;
    let places = provider.create(&id, &CreateRequest::default()).await.unwrap().here().unwrap();
    let script = format!("touch asking; curl -sS {}/file.txt", outside.url());
    let command = vec!["/bin/bash".to_owned(), "-c".to_owned(), script];
    provider.start(&id, StartRequest { env: proxied(), command, ..StartRequest::default() }).await.unwrap();
    let asking = places.workspace.join("asking");
    crate::support::until("the script runs", || asking.exists()).await;
    let door = world.open(&id, &places.door_dir);
    let exit = timeout(LONG, provider.wait(&id)).await.expect("it ends").unwrap();
    let output = provider.output(&id, 0, 4096).await.unwrap();
    assert_eq!((exit.code, String::from_utf8_lossy(&output).as_ref()), (Some(0), "hello outside\n"));
    provider.delete(&id).await.unwrap();
    door.abort();
}
