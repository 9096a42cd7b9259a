//! `/api/v1/audit`: who has downloaded which codes.

use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::Home;
use crate::support::batches::{codes, order, wait_for};

const CONFIG: &str = "
id_types:
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { tenant: OTHER, name: cap, random: { alphabet: crockford32, length: 16, ledger: derived } }
";

#[test]
fn every_download_is_on_record() {
    let home = Home::new().with_config(CONFIG);
    let admin = home.create_key(&["--name", "chief", "--scope", "admin"]);
    let worker = home.create_key(&["--name", "line 3", "--scope", "batch", "--tenant", "default"]);
    let server = home.start();
    let key = admin.clone();
    let (admin, worker) = (server.client_with(&admin), server.client_with(&worker));
    let batch = wait_for(&worker, &order(&worker, "label", 10), "completed");
    let id = batch["id"].as_str().unwrap();
    let path = format!("/api/v1/batches/{id}/codes");
    codes(&worker, &batch, "&from=2&limit=3");
    let part = worker.call(Method::GET, &path, &[("range", "bytes=0-9")], None);
    assert_eq!(part.status, 206, "{part:?}");
    // A range that does not count gets the whole file.
    for headers in [&[("range", "bytes=0-0"), ("if-range", "\"x\"")][..], &[("range", "lines=0-0")]]
    {
        assert_eq!(worker.call(Method::GET, &path, headers, None).status, 200);
    }
    // What gives out no codes is none.
    assert_eq!(worker.call(Method::HEAD, &path, &[], None).status, 200);
    worker.get(&format!("{path}?format=pdf")).problem(422, "invalid_request");
    assert!(matches!(worker.get(&format!("/api/v1/batches/{id}/manifest")).status, 200 | 202));
    worker.get("/api/v1/audit").problem(403, "missing_scope");

    let deeds = |query: &str| {
        let reply = admin.get(&format!("/api/v1/audit{query}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    };
    let listed = deeds("");
    let all = listed["deeds"].as_array().unwrap();
    assert_eq!((all.len(), &listed["next"]), (4, &Value::Null), "{listed}");
    for deed in all {
        assert_eq!((&deed["action"], &deed["subject"]), (&json!("batch.downloaded"), &json!(id)));
        assert_eq!((&deed["key_name"], &deed["tenant"]), (&json!("line 3"), &json!("default")));
    }
    let mut detail = json!({"format": "csv", "from": null, "limit": null, "range": null});
    assert_eq!((&all[0]["detail"], &all[1]["detail"]), (&detail, &detail));
    detail["range"] = json!(part.header("content-range").unwrap());
    assert_eq!(all[2]["detail"], detail);
    assert_eq!((&all[3]["detail"]["from"], &all[3]["detail"]["limit"]), (&json!(2), &json!(3)));

    let first = deeds("?limit=3");
    assert_eq!(first["deeds"].as_array().unwrap(), &all[..3]);
    let second = deeds(&format!("?limit=3&after={}", first["next"].as_str().unwrap()));
    assert_eq!((&second["deeds"], &second["next"]), (&json!([all[3]]), &Value::Null));
    assert_eq!(deeds(&format!("?subject={id}&action=batch.downloaded&tenant=default")), listed);
    for other in ["?tenant=OTHER", "?subject=1", "?action=batch.read"] {
        assert_eq!(deeds(other)["deeds"], json!([]), "{other}");
    }
    for wrong in ["after=x", "subject=%00", "tenant=a%00b"] {
        admin.get(&format!("/api/v1/audit?{wrong}")).problem(422, "invalid_request");
    }
    let table = home.ok(&["audit", "--server", &server.url, "--key", &key]);
    assert!(table.contains("batch.downloaded") && table.contains("line 3"), "{table}");
}
