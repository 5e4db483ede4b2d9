//! What a node lets another node ask for, and what a sandbox can make its node ask another one for.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::installation::{
    Across, Installation, id_of, run, run_project, script, state, token_between_nodes,
};
use crate::support::{Server, git, http, until};

/// Asks a server as another node does that means `node`; gives status and body.
async fn ask_as_node(server: &Server, node: &str, path: &str) -> (u16, String) {
    let request = http().get(format!("{}/internal/v1{path}", server.url)).bearer_auth(token_between_nodes());
    let answer = request.header("x-sunaba-node", node).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_meant_for_another_node_is_refused() {
    let installation = Installation::start();
    let server = installation.node(&["--roles", "api"]);
    let (me, other) = (id_of(&server), "node_00000000000000000000000000000000");
    assert_eq!(ask_as_node(&server, &me, "/node").await, (200, "here".to_owned()));
    let (status, words) = ask_as_node(&server, other, "/node").await;
    assert!(status == 503 && words.contains("wrong_node"), "{status} {words}");
    // Git says it in the path. The right node is asked, and has no such project.
    let git = |node: &str| format!("/nodes/{node}/git/prj_1/info/refs?service=git-upload-pack");
    let (status, words) = ask_as_node(&server, &me, &git(&me)).await;
    assert!(status == 404 && words.contains("has no repository here"), "{status} {words}");
    let (status, words) = ask_as_node(&server, &me, &git(other)).await;
    assert!(status == 503 && words.contains("another node than the one that is meant"), "{status} {words}");
}

/// Paths that, put behind the address of a sandbox's git at the home, would end at the routes for nodes: the one
/// that shows any mirror, and the one that says that the node is there.
fn bent(home: &str, project: &str) -> Vec<String> {
    let refs = "info/refs?service=git-upload-pack";
    let mut paths = Vec::new();
    for (up, between) in
        [("..", "/"), ("%2e%2E", "/"), ("..", "\\"), ("..", "%2f"), ("..", "%5c"), ("..", "//")]
    {
        let climb = [up; 3].join(between);
        let replica = ["nodes", home, "git", project].join(between);
        paths.push(format!("/gateway/git/{climb}{between}{replica}/{refs}"));
        paths.push(format!("/gateway/git/{project}/{climb}{between}{up}{between}{replica}/{refs}"));
        paths.push(format!("/gateway/git/{climb}{between}node"));
        paths.push(format!("/gateway/git/{project}/{climb}{between}{up}{between}node"));
    }
    paths.extend([
        format!("/gateway/git//internal/v1/nodes/{home}/git/{project}/{refs}"),
        format!("//internal/v1/nodes/{home}/git/{project}/{refs}"),
        format!("/internal/v1/nodes/{home}/git/{project}/{refs}"),
        format!("/gateway/git/http:%2f%2f127.0.0.1%2finternal%2fv1%2fnode/{refs}"),
        format!("/gateway/git/{project}/{refs}/../../../../node"),
        format!("/gateway/git/{project}/{refs}%00"),
    ]);
    paths
}

/// Has a sandbox ask for each path as it stands, and for one more of the home itself through its node.
fn asking(paths: &[String], home: &Server) -> String {
    let curl = "curl -s -o /dev/null -w '%{http_code}' --path-as-is -u \"x:$SANDBOX_TOKEN\"";
    let mut script = "- tools:\n    - shell: |\n".to_owned();
    for (path, number) in paths.iter().zip(0..) {
        let ask = format!("{curl} 'http://127.0.0.1:3129{path}'");
        writeln!(script, "        echo \"answer {number} $({ask})\"").unwrap();
    }
    let ask = format!("{curl} --noproxy '' -x http://127.0.0.1:3129 '{}/internal/v1/node'", home.url);
    writeln!(script, "        echo \"answer {} $({ask})\"\n- text: Done.", paths.len()).unwrap();
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_cannot_bend_what_its_node_asks_of_the_home() {
    let Across { installation: _up, home, holder, repo } = Across::start();
    let project = home.post("/api/v1/projects", &json!({ "repo_path": repo })).await;
    let project = project["id"].as_str().unwrap();
    let straight = format!("/gateway/git/{project}/info/refs?service=git-upload-pack");
    let paths = [vec![straight], bent(&id_of(&home), project)].concat();
    let id = run_project(&home, project, asking(&paths, &home)).await;
    until("the end", || state(&home, &id) == "completed");
    assert_eq!(home.json(&["show", &id])["sandbox"]["node_id"], id_of(&holder));

    let told = home.run(&["logs", &id, "--full"]).stdout;
    // The command that asks is told too, without numbers.
    let answer = |number: usize| -> u16 {
        let mark = format!("answer {number} ");
        let mut after = told.split(&mark).skip(1);
        after.find_map(|rest| rest.split_whitespace().next()?.parse().ok()).expect("an answer")
    };
    assert_eq!(answer(0), 200, "asked straight, the home answers: {told}");
    for (number, path) in paths.iter().enumerate().skip(1) {
        assert!((400..500).contains(&answer(number)), "{path}: {}", answer(number));
    }
    assert!((400..500).contains(&answer(paths.len())), "{told}");
}

/// Pushes by itself and goes on.
const PUSHES: &str = "
- tools:
    - shell: echo x > x.txt && git add x.txt && git commit -qm x && git push -q origin HEAD && echo it is up; sleep 600
";

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_is_not_published_whoever_asks() {
    let Across { installation: _up, home, holder: _holds, repo } = Across::start();
    let id = run(&home, &repo, &script(home.data.path(), PUSHES));
    until("the push", || home.run(&["logs", &id, "--full"]).stdout.contains("it is up"));
    home.run(&["stop", &id]).expect_code(0);
    until("the end", || state(&home, &id) == "cancelled");
    // As its node does that had seen the agent finish, and has not heard of the cancel yet.
    let request = http().post(format!("{}/internal/v1/sandboxes/{id}/publish", home.url));
    let answer = request.bearer_auth(token_between_nodes()).send().await.unwrap();
    assert_eq!(answer.status(), 409);
    let words = answer.text().await.unwrap();
    assert!(words.contains("the sandbox is cancelled; nothing was published"), "{words}");
    assert_eq!(git(&repo, &["branch", "--format=%(refname:short)"]), "main\n");
    let shown = home.json(&["show", &id]);
    assert_eq!((&shown["sandbox"]["head_commit"], &shown["task"]["outcome"]), (&Value::Null, &Value::Null));
}
