//! Two servers with two data directories on one PostgreSQL and one Redis: the main job across both, and what
//! becomes of it when one of them stops, dies or comes back.

use crate::installation::{Across, Installation, STEERED, id_of, nodes, run, script, state, status_of};
use crate::support::{Ran, Server, git, http, repository_of, sunaba, until};

const LONG: &str = "
- tools:
    - shell: sleep 5
- tools:
    - write: {path: late.txt, content: \"late\\n\"}
- text: Done.
";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_crosses_nodes_and_every_server_shows_all_of_it() {
    let Across { installation, home, holder, repo } = Across::start();
    let listed = nodes(&home);
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|node| node["status"] == "up"), "{listed:?}");

    let id = run(&home, &repo, &script(home.data.path(), STEERED));
    until("it runs", || state(&home, &id) == "running");
    let shown = holder.json(&["show", &id])["sandbox"].clone();
    assert_eq!(shown["node_id"], id_of(&holder), "only one of them starts sandboxes");
    // Said to the server that does not hold it; the script insists on it.
    home.run(&["send", &id, "please also b.txt"]).expect_code(0);
    until("the end", || state(&home, &id) == "completed");

    let branch = home.json(&["show", &id])["sandbox"]["branch_name"].as_str().unwrap().to_owned();
    assert_eq!(git(&repo, &["show", &format!("{branch}:b.txt")]), "b\n", "published where the repository is");
    for server in [&home, &holder] {
        let diff = server.run(&["diff", &id]);
        assert!(diff.expect_code(0).stdout.contains("+++ b/a.txt"), "{}", diff.stdout);
        server.run(&["verify", &id]).expect_code(0);
        let told = server.run(&["logs", &id]);
        assert!(told.stdout.contains("tick 6"), "{}", told.stdout);
    }
    let elsewhere =
        Ran::of(sunaba(holder.data.path()).args(["run", "--detach", "--repo"]).arg(&repo).arg("x"));
    assert!(elsewhere.stderr.contains("on the machine of the node"), "{elsewhere:?}");
    drop((home, holder, installation));
}

/// Ids of 64 digits: what is copied to another node has the same kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_with_sha256_ids_is_worked_on_from_another_node() {
    let Across { installation, home, holder, .. } = Across::start();
    let folder = home.data.path().join("wide");
    std::fs::create_dir(&folder).unwrap();
    let repo = repository_of(&folder, "sha256");
    let id = run(
        &home,
        &repo,
        &script(home.data.path(), "- tools:\n    - write: {path: a.txt, content: \"a\\n\"}\n- text: Done.\n"),
    );
    until("the end", || state(&home, &id) == "completed");
    let shown = home.json(&["show", &id])["sandbox"].clone();
    assert_eq!(shown["node_id"], id_of(&holder));
    assert_eq!(shown["head_commit"].as_str().unwrap().len(), 64);
    let branch = shown["branch_name"].as_str().unwrap();
    assert_eq!(git(&repo, &["show", &format!("{branch}:a.txt")]), "a\n");
    drop((home, holder, installation));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_disturbs_no_run() {
    let Across { installation, mut home, mut holder, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), LONG));
    until("it runs", || state(&home, &id) == "running");
    assert!(holder.terminate().success());
    until("it is known to have left", || status_of(&home, &id_of(&holder)) == "left");
    assert_eq!(state(&home, &id), "running", "nobody else touches it");
    // Without the role it takes up nothing more, and still looks after what it holds.
    let address = holder.url.trim_start_matches("http://").to_owned();
    let mut command = installation.serve(holder.data.path(), &["--listen", &address, "--roles", "api"]);
    holder.restart(&mut command);
    assert!(home.terminate().success());
    // The agent ends while its repository's home is away: its push waits.
    until("the push waits", || holder.log().contains("waiting for another node"));
    assert_eq!(state(&holder, &id), "running");
    installation.again(&mut home);
    until("the end", || state(&holder, &id) == "completed");
    let shown = holder.json(&["show", &id])["sandbox"].clone();
    assert_eq!(shown["attempt"], 1);
    let branch = shown["branch_name"].as_str().unwrap();
    assert_eq!(git(&repo, &["show", &format!("{branch}:late.txt")]), "late\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_node_held_is_tried_again_elsewhere_and_removed_when_it_comes_back() {
    let Across { installation, home, mut holder, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), "- tools:\n    - shell: sleep 600\n"));
    until("it runs", || state(&home, &id) == "running");
    let lost = id_of(&holder);
    home.run(&["node", "lost", &lost]).expect_code(1);
    let other = installation.node(&[]);
    installation.lose(&mut holder, &home);
    until("another attempt", || {
        let all = home.json(&["ps", "--all"]);
        let next = all.as_array().unwrap().iter().find(|it| it["id"] != id.as_str()).cloned();
        next.is_some_and(|it| it["state"] == "running" && it["attempt"] == 2)
    });
    let past = home.json(&["show", &id])["sandbox"].clone();
    assert_eq!(past["state"], "failed");
    assert!(past["reason"].as_str().unwrap().starts_with("node_lost"), "{past}");
    // The lost node comes back: what it held is over and goes; the other attempt lives on.
    let held = holder.data.path().join("sandboxes").join(&id);
    assert!(held.exists());
    installation.again(&mut holder);
    until("nothing is left of it", || !held.exists());
    assert_eq!(status_of(&home, &lost), "up");
    let living = home.json(&["ps"]);
    assert_eq!(living.as_array().unwrap().len(), 1);
    home.run(&["stop", living[0]["id"].as_str().unwrap()]).expect_code(0);
    until("the end", || home.json(&["ps"]).as_array().unwrap().is_empty());
    until("no sandbox anywhere", || {
        let empty = |server: &Server| {
            let dir = server.data.path().join("sandboxes");
            std::fs::read_dir(dir).map_or(true, |mut entries| {
                entries.all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with("sbx_"))
            })
        };
        empty(&holder) && empty(&other)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_between_nodes_open_to_nodes_alone() {
    let installation = Installation::start();
    let server = installation.node(&["--roles", "api"]);
    let ask = async |token: Option<&str>, path: &str| {
        let mut request = http().get(format!("{}{path}", server.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let admin = server.token();
    for path in ["/internal/v1/blobs/00", "/internal/v1/nodes/n/git/p/info/refs?service=git-upload-pack"] {
        assert_eq!(ask(None, path).await, 401);
        assert_eq!(ask(Some(&admin), path).await, 401, "not even to an administrator");
        assert_eq!(ask(Some("sun_admin_00"), path).await, 401);
    }
}
