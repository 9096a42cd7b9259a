//! Where documents go in tests: a directory, or somebody who takes requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Client, Home, wait_until};

/// Types for documents.
pub(crate) const CONFIG: &str = "
id_types:
  - { name: order, sequence: { template: 'ORD-{seq}' } }
  - { name: invoice, sequence: { template: 'INV-{seq:06}', gapless: true } }
  - { name: farmer, random: { alphabet: digits, length: 12, check: verhoeff, filters: openg2p } }
  - { name: bill, sequence: { template: 'BILL-{yyyy}-{seq}', reset: yearly } }
  - { name: event, snowflake: {} }
  - { tenant: PROJ, name: '9012', sequence: { start: 1001, template: '{tenant}-{type}-{seq}' } }
";

/// Types for documents, and sinks nearby.
pub(crate) fn home() -> Home {
    with_sinks_nearby(Home::new().with_config(CONFIG))
}

/// Allows sinks nearby. Failures are soon tried again.
pub(crate) fn with_sinks_nearby(home: Home) -> Home {
    let root = root(&home);
    home.with("MINTAGE__OUTBOUND__DIRECTORY", root.to_str().unwrap())
        .with("MINTAGE__OUTBOUND__PRIVATE_ADDRESSES", "true")
        .with("MINTAGE__DOCUMENTS__RETRY_SECONDS", "1")
        .with("MINTAGE__DOCUMENTS__RECONCILE_SECONDS", "1")
}

/// What the directories of sinks are in.
pub(crate) fn root(home: &Home) -> PathBuf {
    home.data().with_file_name("sinks")
}

/// Makes a sink that is a directory.
pub(crate) fn directory(client: &Client, name: &str, more: &Value) -> Value {
    put(client, name, json!({"directory": name}), more)
}

/// Makes a sink that takes requests, and returns its secret.
pub(crate) fn address(client: &Client, name: &str, receiver: &Receiver, more: &Value) -> String {
    let sink = put(client, name, json!({"url": receiver.url()}), more);
    sink["secret"].as_str().unwrap_or_else(|| panic!("{sink}")).to_owned()
}

fn put(client: &Client, name: &str, mut settings: Value, more: &Value) -> Value {
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = client.put(&format!("/api/v1/sinks/{name}"), &settings);
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.body
}

/// Assigns an ID to one document.
pub(crate) fn assign(client: &Client, type_name: &str, payload: &Value) -> String {
    let reply = client.post("/api/v1/documents", &json!({"type": type_name, "payload": payload}));
    assert_eq!(reply.status, 202, "{reply:?}");
    reply.body["id"].as_str().unwrap().to_owned()
}

/// A document as the server knows it.
pub(crate) fn document(client: &Client, id: &str) -> Value {
    let reply = client.get(&format!("/api/v1/documents/{id}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

/// Waits until a document is in a state, and returns it.
pub(crate) fn wait_for_state(client: &Client, id: &str, state: &str) -> Value {
    wait_until(&format!("{id} is {state}"), || document(client, id)["state"] == state);
    document(client, id)
}

/// The documents in a directory below a sink's, by the names of their files.
pub(crate) fn files(directory: &Path) -> BTreeMap<String, Value> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeMap::new() };
    let names = entries.map(|entry| entry.unwrap().path());
    // What is being written ends otherwise.
    let whole = names.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    whole
        .map(|path| {
            let content = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&content).unwrap())
        })
        .collect()
}

/// Waits until so many documents are in a directory, and returns them.
pub(crate) fn wait_for_files(directory: &Path, count: usize) -> BTreeMap<String, Value> {
    wait_until(&format!("{count} documents are there"), || files(directory).len() >= count);
    files(directory)
}

/// The gaps of a type, closed ones included.
pub(crate) fn gaps(client: &Client, type_name: &str) -> Vec<Value> {
    let reply = client.get(&format!("/api/v1/ids/gaps?type={type_name}&closed=true"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["gaps"].as_array().unwrap().clone()
}
