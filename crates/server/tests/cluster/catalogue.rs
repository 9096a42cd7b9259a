//! Types and keys that one instance changes are changed for all of them.

use std::thread;

use serde_json::{Value, json};

use crate::instances::{home, start_together, within_a_second};
use crate::support::{Deployment, Reply, Server};

on_every_cluster!(
    a_type_that_one_instance_makes_changes_or_retires_is_so_on_all_within_a_second,
    a_key_that_one_instance_makes_or_revokes_is_so_on_all_within_a_second,
    puts_of_one_type_at_the_same_moment_agree,
);

const PATH: &str = "/api/v1/types/ticket";

fn a_type_that_one_instance_makes_changes_or_retires_is_so_on_all_within_a_second(
    deployment: Deployment,
) {
    let home = home(deployment);
    let servers = start_together(&home, 3);
    let spec = |group: Option<u32>| {
        let random = json!({"alphabet": "crockford32", "length": 12, "group": group});
        json!({"random": random})
    };
    let all = |what: &str, on_one: &dyn Fn(&Server) -> bool| {
        within_a_second(what, || servers.iter().all(on_one));
    };
    for round in 0..3 {
        let [first, second, third] = [0, 1, 2].map(|step| servers[(round + step) % 3].client());
        let made = first.put(PATH, &spec(None));
        assert_eq!(made.status, if round == 0 { 201 } else { 200 }, "{made:?}");
        all("the type is known", &|server| server.client().get(PATH).body["state"] == "active");
        for server in &servers {
            assert!(!server.client().issue("ticket", 1)[0].contains('-'));
        }
        assert_eq!(second.put(PATH, &spec(Some(4))).status, 200);
        all("the change is known", &|server| {
            server.client().get(PATH).body["random"]["group"] == 4
        });
        for server in &servers {
            assert!(server.client().issue("ticket", 1)[0].contains('-'));
        }
        assert_eq!(third.delete(PATH).body["outcome"], "retired");
        all("the retirement is known", &|server| {
            server.client().order(r#"{"type":"ticket"}"#).status == 410
        });
    }
}

fn a_key_that_one_instance_makes_or_revokes_is_so_on_all_within_a_second(deployment: Deployment) {
    let home = home(deployment);
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let servers = start_together(&home, 3);
    let status =
        |server: &Server, token: &str| server.client_with(token).order(r#"{"type":"card"}"#).status;
    for round in 0..6 {
        let order = json!({"name": "shop", "scopes": ["issue"]});
        let made = servers[round % 3].client_with(&admin).post("/api/v1/keys", &order);
        let token = made.body["token"].as_str().unwrap_or_else(|| panic!("{made:?}"));
        within_a_second("the key is known", || {
            servers.iter().all(|server| status(server, token) == 200)
        });
        let key = format!("/api/v1/keys/{}", made.body["key"].as_str().unwrap());
        assert_eq!(servers[(round + 1) % 3].client_with(&admin).delete(&key).status, 200);
        // Who looks at the types at this very moment must not overlook the keys.
        for server in &servers {
            let spec = json!({"sequence": {}});
            let put = server.client_with(&admin).put(&format!("/api/v1/types/t{round}"), &spec);
            assert!(matches!(put.status, 200 | 201), "{put:?}");
        }
        within_a_second("the key is revoked", || {
            servers.iter().all(|server| status(server, token) == 401)
        });
    }
}

/// Puts what each instance is given, at the same moment.
fn put_together(servers: &[Server], path: &str, specs: &[Value]) -> Vec<Reply> {
    thread::scope(|scope| {
        let puts: Vec<_> = servers
            .iter()
            .zip(specs)
            .map(|(server, spec)| (server.client(), spec))
            .map(|(client, spec)| scope.spawn(move || client.put(path, spec)))
            .collect();
        puts.into_iter().map(|put| put.join().unwrap()).collect()
    })
}

fn puts_of_one_type_at_the_same_moment_agree(deployment: Deployment) {
    let home = home(deployment);
    let servers = start_together(&home, 3);
    for round in 0..5 {
        let path = format!("/api/v1/types/same{round}");
        let spec = json!({"random": {"alphabet": "alnum", "length": 14}});
        let replies = put_together(&servers, &path, &[spec.clone(), spec.clone(), spec]);
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 201], "{replies:?}");

        // Whoever comes last changes what was not used yet, or is told that it is too late.
        let path = format!("/api/v1/types/other{round}");
        let specs = [10, 20, 30].map(|start| json!({"sequence": {"start": start}}));
        let replies = put_together(&servers, &path, &specs);
        let made = replies.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(made, 1, "{replies:?}");
        for reply in replies.iter().filter(|reply| !matches!(reply.status, 200 | 201)) {
            reply.problem(409, "settings_are_fixed");
        }
        let start = |server: &Server| server.client().get(&path).body["sequence"]["start"].clone();
        within_a_second("they agree", || {
            servers.iter().all(|server| start(server) == start(&servers[0]))
        });
        let first = start(&servers[0]).as_u64().unwrap();
        let name = format!("other{round}");
        let issued = servers.iter().map(|server| server.client().issue(&name, 1).remove(0));
        let mut issued: Vec<u64> = issued.map(|id| id.parse().unwrap()).collect();
        issued.sort_unstable();
        assert_eq!(issued[0], first, "{issued:?}");
        assert!(issued.is_sorted_by(|a, b| a < b), "{issued:?}");
    }
}
