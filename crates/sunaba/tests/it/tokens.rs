//! `sunaba token`: made, used, listed, revoked.

use crate::support::{Ran, Server, sunaba};

#[test]
fn a_token_opens_until_it_is_revoked() {
    let server = Server::start(&[]);
    let made = server.run(&["token", "create", "laptop", "--scopes", "read"]);
    made.expect_code(0);
    let token = made.stdout.trim().to_owned();
    assert!(token.starts_with("sun_personal_"), "{}", made.stdout);

    let with =
        |arguments: &[&str]| Ran::of(sunaba(server.data.path()).args(arguments).env("SUNABA_TOKEN", &token));
    with(&["ps"]).expect_code(0);
    let refused = with(&["token", "list"]);
    refused.expect_code(1);
    assert!(refused.stderr.contains("use a token that may do this"), "{}", refused.stderr);

    let listed = server.json(&["token", "list"]);
    let entry = listed.as_array().unwrap().iter().find(|entry| entry["name"] == "laptop").unwrap().clone();
    assert_eq!(entry["kind"], "personal");
    assert_eq!(entry["scopes"], serde_json::json!(["read"]));
    assert!(!listed.to_string().contains(&token), "a list never holds a token");

    let nowhere = server.run(&["token", "create", "x", "--projects", "nosuch"]);
    nowhere.expect_code(1);
    assert!(nowhere.stderr.contains("there is no project nosuch"), "{}", nowhere.stderr);

    server.run(&["token", "revoke", "laptop"]).expect_code(0);
    let after = with(&["ps"]);
    after.expect_code(1);
    assert!(after.stderr.contains("(unauthorized)"), "{}", after.stderr);
    let again = server.run(&["token", "revoke", "laptop"]);
    again.expect_code(1);
    assert!(server.run(&["token", "list"]).stdout.contains("revoked"));
}
