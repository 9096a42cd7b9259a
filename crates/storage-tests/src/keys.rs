//! API keys.

use storage::{NewApiKey, Scope, StoreError};

use crate::Fixture;
use crate::support::{at, open, reopen};

fn key(short: &str) -> NewApiKey {
    NewApiKey {
        short: short.to_owned(),
        secret_hash: [0xa5; 32],
        name: "the cash desk".to_owned(),
        tenant: Some("acme".to_owned()),
        scopes: vec![Scope::Scan, Scope::Issue],
        requests_per_second: Some(50),
        created_at: at(1),
        expires_at: Some(at(1000)),
    }
}

pub async fn a_key_comes_back_as_it_was_stored(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let limited = key("limited");
    let free = NewApiKey {
        tenant: None,
        scopes: Scope::ALL.to_vec(),
        requests_per_second: None,
        expires_at: None,
        ..key("free")
    };
    let useless = NewApiKey { scopes: vec![], ..key("useless") };
    let keys = [limited, free, useless];
    for key in &keys {
        let created = store.create_key(key).await.unwrap();
        assert_eq!((&created.key, created.revoked_at), (key, None));
        assert!(created.id >= 1);
    }
    let store = reopen(fixture, store).await;
    let listed = store.list_keys().await.unwrap();
    assert_eq!(listed.into_iter().map(|listed| listed.key).collect::<Vec<_>>(), keys);
}

pub async fn a_taken_public_part_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.create_key(&key("abc")).await.unwrap();
    let other = NewApiKey { secret_hash: [1; 32], name: "other".to_owned(), ..key("abc") };
    for _ in 0..2 {
        let refused = store.create_key(&other).await;
        assert!(matches!(refused, Err(StoreError::Exists("key"))), "{refused:?}");
        store.revoke_key("abc", at(2)).await.unwrap();
    }
    let listed = store.list_keys().await.unwrap();
    assert_eq!(listed.into_iter().map(|listed| listed.key).collect::<Vec<_>>(), [key("abc")]);
}

pub async fn a_key_is_revoked_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.create_key(&key("abc")).await.unwrap();
    store.create_key(&key("def")).await.unwrap();
    assert!(store.revoke_key("abc", at(5)).await.unwrap());
    assert!(!store.revoke_key("abc", at(6)).await.unwrap());
    let store = reopen(fixture, store).await;
    let revoked: Vec<_> =
        store.list_keys().await.unwrap().into_iter().map(|key| key.revoked_at).collect();
    assert_eq!(revoked, [Some(at(5)), None], "the first time counts");
}

pub async fn keys_are_listed_oldest_first_with_growing_numbers(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for short in ["b", "c", "a"] {
        store.create_key(&key(short)).await.unwrap();
    }
    let listed = store.list_keys().await.unwrap();
    assert!(listed.is_sorted_by(|one, next| one.id < next.id));
    let names: Vec<_> = listed.iter().map(|listed| listed.key.short.as_str()).collect();
    assert_eq!(names, ["b", "c", "a"]);
}

pub async fn unknown_keys_cannot_be_revoked(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let refused = store.revoke_key("abc", at(5)).await;
    assert!(matches!(refused, Err(StoreError::NotFound("key"))), "{refused:?}");
}
