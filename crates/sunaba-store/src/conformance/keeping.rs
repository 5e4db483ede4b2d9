//! Tokens, blobs, settings, closing.

use std::time::Duration;

use serde_json::json;
use sunaba_types::chain::sha256;
use sunaba_types::{BlobHash, Clock as _, ProjectId, SandboxId, TokenId, TokenKind};

use super::world::{World, event};
use crate::{Append, Error, EventQuery, NewToken, Writer};

fn token(secret: &str, kind: TokenKind) -> NewToken {
    NewToken {
        hash: sha256(secret.as_bytes()),
        name: secret.to_owned(),
        kind,
        scopes: Vec::new(),
        projects: Vec::new(),
        sandbox_id: None,
        attempt: None,
        expires_at: None,
    }
}

/// A token is found by its hash alone, with its bounds; sandbox tokens are not listed.
pub async fn keeps_tokens_by_hash(world: World) {
    let personal = NewToken {
        scopes: vec!["read".to_owned()],
        projects: vec![ProjectId::generate()],
        expires_at: Some(world.clock.now()),
        ..token("personal", TokenKind::Personal)
    };
    let own = NewToken {
        sandbox_id: Some(SandboxId::generate()),
        attempt: Some(3),
        ..token("own", TokenKind::Sandbox)
    };
    let personal = world.store.create_token(personal).await.expect("stored");
    world.pass(1);
    let own = world.store.create_token(own).await.expect("stored");
    let admin = world.store.create_token(token("admin", TokenKind::Admin)).await.expect("stored");
    assert_eq!(world.store.find_token(&sha256(b"personal")).await.expect("up"), Some(personal.clone()));
    assert_eq!(world.store.find_token(&sha256(b"own")).await.expect("up"), Some(own));
    assert_eq!(world.store.find_token(&sha256(b"other")).await.expect("up"), None);
    assert_eq!(world.store.list_tokens().await.expect("up"), vec![admin, personal]);
}

/// Revoking is seen at once, keeps its first moment and may be repeated.
pub async fn revokes_tokens_once(world: World) {
    let made = world.store.create_token(token("t", TokenKind::Admin)).await.expect("stored");
    let first = world.store.revoke_token(&made.id).await.expect("up").expect("it exists");
    world.pass(60);
    let again = world.store.revoke_token(&made.id).await.expect("up").expect("it exists");
    assert_eq!((first.revoked_at.is_some(), &again), (true, &first));
    assert_eq!(world.store.find_token(&sha256(b"t")).await.expect("up"), Some(first));
    assert_eq!(world.store.revoke_token(&TokenId::generate()).await.expect("up"), None);
}

/// A sandbox's tokens go together, and nobody else's with them.
pub async fn revokes_the_tokens_of_a_sandbox(world: World) {
    let own = SandboxId::generate();
    let of = |name: &str, id: &SandboxId| NewToken {
        sandbox_id: Some(id.clone()),
        attempt: Some(1),
        ..token(name, TokenKind::Sandbox)
    };
    for new in [of("one", &own), of("two", &own), of("other", &SandboxId::generate())] {
        world.store.create_token(new).await.expect("stored");
    }
    world.store.create_token(token("admin", TokenKind::Admin)).await.expect("stored");
    let revoked_at = async |name: &[u8]| {
        let found = world.store.find_token(&sha256(name)).await.expect("up");
        found.expect("it exists").revoked_at
    };
    world.store.revoke_tokens_of(&own).await.expect("up");
    let first = revoked_at(b"one").await;
    world.pass(60);
    world.store.revoke_tokens_of(&own).await.expect("twice is harmless");
    assert!(first.is_some() && first == revoked_at(b"one").await && first == revoked_at(b"two").await);
    for name in ["other", "admin"] {
        assert_eq!(revoked_at(name.as_bytes()).await, None, "{name}");
    }
}

/// A blob belongs to everyone who stored it.
pub async fn knows_blob_owners(world: World) {
    let hash = BlobHash::of(b"bytes");
    assert_eq!(world.store.blob_owners(&hash).await.expect("up"), vec![]);
    let owner = SandboxId::generate();
    for _ in 0..2 {
        world.store.record_blob(&hash, 5, Some(&owner), Writer::Operator).await.expect("recorded");
    }
    assert_eq!(world.store.blob_owners(&hash).await.expect("up"), vec![Some(owner.clone())]);
    world.store.record_blob(&hash, 5, None, Writer::Operator).await.expect("recorded");
    let owners = world.store.blob_owners(&hash).await.expect("up");
    assert!(owners.len() == 2 && owners.contains(&None) && owners.contains(&Some(owner)));
}

/// The first value holds.
pub async fn sets_a_setting_once(world: World) {
    assert_eq!(world.store.find_setting("node").await.expect("up"), None);
    assert_eq!(world.store.set_setting_once("node", "a").await.expect("up"), "a");
    assert_eq!(world.store.set_setting_once("node", "b").await.expect("up"), "a");
    assert_eq!(world.store.find_setting("node").await.expect("up").as_deref(), Some("a"));
}

/// A closed store says so instead of hanging or answering with nothing.
pub async fn refuses_work_when_closed(world: World) {
    let id = world.external(vec![event("x", json!({}))]).await;
    world.store.check().await.expect("it works");
    assert!(!world.store.feed_after(0, 10).await.expect("what was published").is_empty());
    let closing = tokio::time::timeout(Duration::from_secs(10), world.store.close());
    closing.await.expect("it waits for nobody who only rests");
    let append =
        Append { sandbox_id: id.clone(), writer: Writer::Operator, events: vec![event("x", json!({}))] };
    let unavailable = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Unavailable(_))));
    unavailable(world.store.append(append).await.map(drop));
    unavailable(world.store.list_events(EventQuery::newest(id, 5)).await.map(drop));
    unavailable(world.store.check().await);
}
