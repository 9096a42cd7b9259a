//! Downloads that go on where they broke off.

use serde_json::{Value, json};
use ureq::http::Method;

use super::home;
use crate::support::batches::{order, wait_for};
use crate::support::{Client, Reply};

/// Codes whose serials get another digit on the way.
const CODES: u64 = 12_000;

fn path(batch: &Value, query: &str) -> String {
    format!("/api/v1/batches/{}/codes?{query}", batch["id"].as_str().unwrap())
}

fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> Reply {
    client.call(Method::GET, path, headers, None)
}

#[test]
fn parts_of_a_file_make_the_whole() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", CODES), "completed");
    let url = "https%3A%2F%2Fa.example%2F%7Bserial%7D%2F%7Bcode%7D";
    for query in [
        "format=txt".to_owned(),
        "columns=serial,code".to_owned(),
        format!("format=ndjson&columns=id,serial,url&url={url}"),
        "columns=id,code&from=37&limit=9990".to_owned(),
    ] {
        let path = path(&batch, &query);
        let whole = get(client, &path, &[]);
        let etag = whole.header("etag").unwrap();
        assert_eq!(whole.header("content-length"), Some(&*whole.text.len().to_string()));
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
        let mut text = String::new();
        // Portions that have no regard for rows, until the last one ends with the file.
        for step in [1, 7777, 3, 100_000, 23, 50_001].into_iter().cycle() {
            if text.len() == whole.text.len() {
                break;
            }
            let range = format!("bytes={}-{}", text.len(), text.len() + step - 1);
            let part = get(client, &path, &[("range", &range), ("if-range", etag)]);
            assert_eq!((part.status, part.header("etag")), (206, Some(etag)), "{part:?}");
            let end = (text.len() + step).min(whole.text.len());
            let place = format!("bytes {}-{}/{}", text.len(), end - 1, whole.text.len());
            assert_eq!(part.header("content-range"), Some(&*place));
            assert_eq!(part.header("content-length"), Some(&*part.text.len().to_string()));
            assert_eq!(part.header("content-type"), whole.header("content-type"));
            text += &part.text;
        }
        assert!(text == whole.text, "{query}");
        for start in [0, 1, whole.text.len() / 2, whole.text.len() - 1] {
            let rest = get(client, &path, &[("range", &format!("bytes={start}-"))]);
            assert!(rest.status == 206 && rest.text == whole.text[start..], "{query}");
        }
        let end = get(client, &path, &[("range", "bytes=-100")]);
        assert_eq!((end.status, &*end.text), (206, &whole.text[whole.text.len() - 100..]));
    }
}

#[test]
fn what_is_no_part_of_this_file_is_the_whole_file_or_refused() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 300), "completed");
    let path = path(&batch, "columns=code,serial");
    let whole = get(client, &path, &[]);
    for range in ["bytes=0-1,5-6", "lines=1-2", "bytes=5-4", "bytes=x"] {
        let reply = get(client, &path, &[("range", range)]);
        assert_eq!((reply.status, &reply.text), (200, &whole.text), "{range}");
    }
    let old = [("range", "bytes=5-"), ("if-range", "\"0123456789abcdef\"")];
    assert_eq!(get(client, &path, &old).text, whole.text);
    let beyond = get(client, &path, &[("range", &format!("bytes={}-", whole.text.len()))]);
    assert!(beyond.problem(416, "range_not_satisfiable").contains(&whole.text.len().to_string()));
    let place = format!("bytes */{}", whole.text.len());
    assert_eq!(beyond.header("content-range"), Some(&*place));
    assert!(beyond.header("content-disposition").is_none());

    // A part is one of the file as it is, whatever else the client understands.
    let packed = [("range", "bytes=0-9"), ("accept-encoding", "gzip, zstd")];
    let part = get(client, &path, &packed);
    assert_eq!((part.status, part.header("content-encoding")), (206, None));
    assert_eq!(part.text, whole.text[..10]);

    let head = client.call(Method::HEAD, &path, &[("range", "bytes=0-9")], None);
    assert_eq!((head.status, &*head.text), (200, ""));
    for name in ["content-length", "etag", "accept-ranges", "content-type", "content-disposition"] {
        assert_eq!(head.header(name), whole.header(name), "{name}");
        assert!(head.header(name).is_some(), "{name}");
    }
    let xlsx = path.replace("columns", "format=xlsx&columns");
    let head = client.call(Method::HEAD, &xlsx, &[("range", "bytes=0-9")], None);
    assert_eq!((head.status, head.header("accept-ranges")), (200, Some("none")));
}

#[test]
fn a_file_that_looks_different_now_begins_again() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 300), "completed");
    let path = path(&batch, "format=txt");
    let before = get(client, &path, &[]);
    let etag = before.header("etag").unwrap();
    assert_eq!(get(client, &path, &[]).header("etag"), Some(etag));
    // Separators are the one thing about codes that can change.
    let spec = json!({"alphabet": "crockford32", "length": 16, "check": "iso7064", "group": 8});
    let put = client.put("/api/v1/types/bottle", &json!({"random": spec}));
    assert_eq!(put.status, 200, "{put:?}");
    let after = get(client, &path, &[("range", "bytes=100-"), ("if-range", etag)]);
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), Some(etag));
    assert_eq!(after.text.len(), before.text.len() - 2 * 300);
    let part = get(client, &path, &[("range", "bytes=100-")]);
    assert_eq!((part.status, &*part.text), (206, &after.text[100..]));
}
