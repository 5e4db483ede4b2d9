//! Sealed secrets of projects.

use sunaba_types::{Clock as _, ProjectId};

use super::world::World;
use crate::{Error, SECRETS_MAX};

/// A secret is set, replaced, listed by name alone and forgotten, each project's for itself.
pub async fn keeps_sealed_secrets(world: World) {
    let (one, two) = (world.project("/a").await.id, world.project("/b").await.id);
    let store = &world.store;
    assert_eq!(store.list_secrets(&one).await.expect("up"), vec![]);
    store.put_secret(&one, "B_KEY", &[0, 255, 7]).await.expect("set");
    store.put_secret(&one, "A_KEY", b"a").await.expect("set");
    store.put_secret(&two, "A_KEY", b"of two").await.expect("set");
    world.pass(60);
    let replaced = store.put_secret(&one, "A_KEY", b"anew").await.expect("replaced");
    assert_eq!((replaced.name.as_str(), replaced.updated_at), ("A_KEY", world.clock.now()));
    let listed = store.list_secrets(&one).await.expect("up");
    assert_eq!(listed.iter().map(|secret| secret.name.as_str()).collect::<Vec<_>>(), ["A_KEY", "B_KEY"]);
    assert!(listed[1].updated_at < listed[0].updated_at && listed[0] == replaced);
    let find = async |id, name| store.find_secret(id, name).await.expect("up");
    assert_eq!(find(&one, "B_KEY").await, Some(vec![0, 255, 7]));
    assert_eq!(
        (find(&one, "A_KEY").await, find(&two, "A_KEY").await),
        (Some(b"anew".to_vec()), Some(b"of two".to_vec()))
    );
    assert!(store.delete_secret(&one, "A_KEY").await.expect("up"));
    assert!(!store.delete_secret(&one, "A_KEY").await.expect("up"), "it is gone already");
    assert_eq!((find(&one, "A_KEY").await, find(&two, "A_KEY").await), (None, Some(b"of two".to_vec())));
    let nowhere = ProjectId::generate();
    let refused = store.put_secret(&nowhere, "A_KEY", b"a").await;
    assert!(matches!(refused, Err(Error::NotFound { what: "project", .. })), "{refused:?}");
    assert_eq!(store.list_secrets(&nowhere).await.expect("up"), vec![]);
    assert!(!store.delete_secret(&nowhere, "A_KEY").await.expect("up"));
}

/// A project has so many and no more; replacing one is not one more.
pub async fn bounds_secrets(world: World) {
    let project = world.project("/a").await.id;
    for n in 0..SECRETS_MAX {
        world.store.put_secret(&project, &format!("K{n}"), b"x").await.expect("there is room");
    }
    let refused = world.store.put_secret(&project, "ONE_MORE", b"x").await;
    assert!(matches!(refused, Err(Error::Full { code: "too_many_secrets", .. })), "{refused:?}");
    assert_eq!(world.store.find_secret(&project, "ONE_MORE").await.expect("up"), None);
    world.store.put_secret(&project, "K0", b"y").await.expect("replaced");
    assert!(world.store.delete_secret(&project, "K1").await.expect("up"));
    world.store.put_secret(&project, "ONE_MORE", b"x").await.expect("there is room again");
}
