//! The files of batches: their formats, compression and manifests.

use std::io::{Cursor, Read as _};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{begin_to_read, home};
use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Server, wait_until};

/// Downloads something from a server as it is, and its headers.
fn download(server: &Server, path: &str, accepted: &str) -> (ureq::http::HeaderMap, Vec<u8>) {
    let url = format!("{}{path}", server.url);
    let mut response = ureq::get(url).header("accept-encoding", accepted).call().unwrap();
    let bytes = response.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap();
    (response.headers().clone(), bytes)
}

#[test]
fn files_come_in_several_forms() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 3), "completed");
    let plain = codes(client, &batch, "");
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let csv = client.get(&format!("{path}?columns=code,serial,id"));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    assert!(csv.header("content-disposition").unwrap().contains(".csv\""));
    let lines: Vec<&str> = csv.text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("code,serial,id", 4));
    assert!(lines[1].starts_with(&format!("\"{}\",\"", plain[0])), "{csv:?}");
    let rest = client.get(&format!("{path}?columns=code,serial,id&from=1"));
    assert_eq!(rest.header("content-type"), Some("text/csv; charset=utf-8; header=absent"));
    assert_eq!(rest.text.lines().collect::<Vec<_>>(), lines[2..]);
    let ndjson = client.get(&format!("{path}?format=ndjson&columns=id,code"));
    let rows: Vec<Value> =
        ndjson.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[2]["code"], plain[2]);
    let ids: Vec<u64> =
        rows.iter().map(|row| row["id"].as_str().unwrap().parse().unwrap()).collect();
    let own: u64 = batch["id"].as_str().unwrap().parse().unwrap();
    assert!(own < ids[0] && ids[0] < ids[1] && ids[1] < ids[2]);
    client.get(&format!("{path}?columns=code,price")).problem(422, "invalid_request");
    client.get(&format!("{path}?format=txt&columns=id")).problem(422, "invalid_request");
    client.get(&format!("{path}?format=pdf")).problem(422, "invalid_request");
}

#[test]
fn files_have_addresses() {
    let server = home().start();
    let client = server.client();
    let metadata = json!({"gtin": "09506000134352"});
    let body = json!({"type": "bottle", "count": 2, "metadata": metadata});
    let batch = wait_for(client, &client.post("/api/v1/batches", &body).body, "completed");
    let code = &codes(client, &batch, "")[0];
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let url = "https%3A%2F%2Fid.example.com%2F01%2F%7Bgtin%7D%2F21%2F%7Bcode%7D";
    let file = client.get(&format!("{path}?columns=code,url&url={url}")).text;
    let row = format!("\"{code}\",\"https://id.example.com/01/09506000134352/21/{code}\"");
    assert_eq!(file.lines().nth(1), Some(&*row));
    let unknown = "https%3A%2F%2Fid.example.com%2F%7Blot%7D%2F%7Bcode%7D";
    let reply = client.get(&format!("{path}?columns=url&url={unknown}"));
    assert!(reply.problem(422, "invalid_request").contains("lot"));
    client.get(&format!("{path}?columns=url")).problem(422, "invalid_request");
    let script = "javascript%3Aalert(1)%2F%2F%7Bcode%7D";
    client.get(&format!("{path}?columns=url&url={script}")).problem(422, "invalid_request");
}

#[test]
fn files_are_compressed_on_request() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 20_000), "completed");
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let plain = client.get(&path).text;
    let packed = |accepted: &str| {
        let (headers, bytes) = download(&server, &path, accepted);
        let coding = headers.get("content-encoding").map(|coding| coding.to_str().unwrap());
        // Parts are those of the file as it is, so a download of another one cannot go on with them.
        let parts = if coding.is_some() { "none" } else { "bytes" };
        assert_eq!(headers["accept-ranges"], parts, "{accepted}");
        assert_eq!(headers.contains_key("etag"), coding.is_none(), "{accepted}");
        (coding.map(ToOwned::to_owned), bytes)
    };
    let (coding, bytes) = packed("br, gzip;q=0.5");
    assert_eq!(coding.as_deref(), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    assert!(text == plain && bytes.len() < plain.len());
    let (coding, bytes) = packed("gzip, zstd");
    assert_eq!(coding.as_deref(), Some("zstd"));
    assert!(zstd::decode_all(&*bytes).unwrap() == plain.as_bytes() && bytes.len() < plain.len());
    assert_eq!(packed("gzip;q=0, identity"), (None, plain.into_bytes()));
}

#[test]
fn a_manifest_proves_the_file() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 12_345), "completed");
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let manifest = wait_for_manifest(client, &path);
    let file = client.get(&format!("{path}/codes")).text;
    assert_eq!((&manifest["count"], &manifest["bytes"]), (&json!(12_345), &json!(file.len())));
    assert_eq!(manifest["sha256"], hex::encode(Sha256::digest(file.as_bytes())));
    assert_eq!(manifest["first_serial"], batch["first_serial"]);
    assert_eq!(manifest["last_serial"], batch["last_serial"]);
}

/// Otherwise it would not prove what was delivered.
#[test]
fn a_manifest_stays_when_codes_are_grouped_in_another_way() {
    let home = home();
    let server = home.start();
    let client = server.client();
    let put = |group: u64| {
        let spec = json!({"alphabet": "crockford32", "length": 16, "group": group});
        client.put("/api/v1/types/crate", &json!({"random": spec})).status
    };
    assert_eq!(put(4), 201);
    let batch = wait_for(client, &order(client, "crate", 1000), "completed");
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let before = wait_for_manifest(client, &path);
    assert_eq!((&before["matches_download"], &before["note"]), (&json!(true), &Value::Null));
    assert_eq!(put(5), 200);
    let file = client.get(&format!("{path}/codes")).text;
    assert_ne!(before["sha256"], hex::encode(Sha256::digest(file.as_bytes())));

    server.stop();
    let server = home.start();
    let reply = server.client().get(&format!("{path}/manifest"));
    assert_eq!(reply.status, 200, "it is on record: {reply:?}");
    let after = reply.body;
    for field in ["sha256", "bytes", "count", "file", "worked_out_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["matches_download"], false);
    assert!(after["note"].as_str().unwrap().contains("groups"), "{after}");
}

/// Waits until the manifest of a batch is ready.
fn wait_for_manifest(client: &Client, path: &str) -> Value {
    let mut manifest = Value::Null;
    wait_until("the manifest is ready", || {
        let reply = client.get(&format!("{path}/manifest"));
        assert!(matches!(reply.status, 200 | 202), "{reply:?}");
        manifest = reply.body;
        manifest["state"] == "ready"
    });
    manifest
}

#[test]
fn the_manifest_of_a_cancelled_batch_is_that_of_its_file() {
    let server = home().start();
    let client = server.client();
    let batch = order(client, "bottle", 2_000_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("some codes are made", || client.get(&path).body["made"].as_u64().unwrap() > 0);
    let cancelled = client.post(&format!("{path}/cancel"), &json!({})).body;
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let manifest = wait_for_manifest(client, &path);
    assert_eq!(manifest["count"], cancelled["made"]);
    let file = client.get(&format!("{path}/codes?columns=serial&format=ndjson")).text;
    let serials: Vec<Value> = file
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["serial"].take())
        .collect();
    assert_eq!(manifest["first_serial"], serials[0]);
    assert_eq!(manifest["last_serial"], serials[serials.len() - 1]);
    assert_ne!(manifest["last_serial"], batch["last_serial"]);

    // Of nothing there is no first and no last.
    let idle = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let batch = order(idle.client(), "bottle", 5);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    assert_eq!(idle.client().post(&format!("{path}/cancel"), &json!({})).status, 200);
    let manifest = wait_for_manifest(idle.client(), &path);
    assert_eq!((&manifest["count"], &manifest["first_serial"]), (&json!(0), &Value::Null));
    assert!(manifest["last_serial"].is_null(), "{manifest}");
}

#[test]
fn files_for_spreadsheets_have_the_same_rows() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 2500), "completed");
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let query = "columns=code,serial,url&url=https%3A%2F%2Fa.example%2F%3Fa%3Db%26c%3D%7Bcode%7D";
    let query = format!("{query}&from=990&limit=20");
    let (headers, bytes) = download(&server, &format!("{path}?format=xlsx&{query}"), "gzip, zstd");
    let media_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    assert_eq!(headers["content-type"], media_type);
    assert!(headers["content-disposition"].to_str().unwrap().contains(".xlsx\""));
    assert!(!headers.contains_key("content-encoding"), "{headers:?}");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut sheet = String::new();
    archive.by_name("xl/worksheets/sheet1.xml").unwrap().read_to_string(&mut sheet).unwrap();
    let cells: Vec<String> = sheet
        .split("<t>")
        .skip(1)
        .map(|rest| rest.split_once("</t>").unwrap().0.replace("&amp;", "&"))
        .collect();
    let csv = client.get(&format!("{path}?{query}")).text;
    let fields = csv.lines().flat_map(|line| line.split(',').map(|field| field.trim_matches('"')));
    assert_eq!(cells[..3], ["code", "serial", "url"]);
    assert_eq!(cells[3..], fields.collect::<Vec<_>>());
    assert_eq!(cells.len(), 21 * 3);
}

#[test]
fn one_tenant_does_not_take_the_room_of_all_downloads() {
    let server = home().start();
    let client = server.client();
    // Larger than all that a connection may hold.
    let batch = order(client, "label", 10_000_000);
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let mut downloads: Vec<_> = (0..16).map(|_| begin_to_read(&server, &batch, "codes")).collect();
    assert!(downloads.iter().all(|(head, _)| head.starts_with("HTTP/1.1 200 ")));
    let refused = client.get(&format!("{path}?limit=1"));
    assert!(refused.problem(429, "too_many_downloads").contains("16 downloads"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let body = json!({"tenant": "OTHER", "type": "cap", "count": 5});
    let other = wait_for(client, &client.post("/api/v1/batches", &body).body, "completed");
    assert_eq!(codes(client, &other, "").len(), 5);
    downloads.pop();
    wait_until("there is room again", || client.get(&format!("{path}?limit=1")).status == 200);
}

/// Whoever asks for a file and does not read it has no room for ever.
#[test]
fn a_download_that_stands_still_is_cut_off() {
    let home = home().with("MINTAGE__SERVER__STALL_TIMEOUT_SECONDS", "1");
    let server = home.start();
    let client = server.client();
    let batch = order(client, "label", 10_000_000);
    let path = format!("/api/v1/batches/{}/codes", batch["id"].as_str().unwrap());
    let downloads: Vec<_> = (0..16).map(|_| begin_to_read(&server, &batch, "codes")).collect();
    client.get(&format!("{path}?limit=1")).problem(429, "too_many_downloads");
    wait_until("there is room again", || client.get(&format!("{path}?limit=1")).status == 200);
    drop(downloads);
}
