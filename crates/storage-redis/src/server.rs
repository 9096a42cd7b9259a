//! Who a server is.
//!
//! Every process has a `run_id`, made when it starts. Every *history* of a data set has a
//! `master_replid`: a new one is made when a master starts, when a replica becomes a master, and
//! when the backlog that replicas catch up from begins anew; a replica has that of its master. None
//! ever comes back. So while a process has the same `master_replid` and is a master, its data set
//! has only been changed by commands: it was not replaced by an older one.

use redis::{Cmd, Pipeline, Value};

use crate::error::Trouble;
use crate::wire::Wire;

/// A server process and the history of its data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Server {
    run_id: String,
    history: String,
    cluster: bool,
}

impl Server {
    /// Asks a server who it is. Only a master will do.
    pub(crate) async fn recognise(wire: &Wire) -> Result<Self, Trouble> {
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("INFO").arg("server");
        ask_history(&mut commands);
        let answers = wire.ask_all(&commands).await?;
        let [server, replication] = &answers[..] else { return Err(NO_INFO) };
        let (server, replication) = (text(server)?, text(replication)?);
        let mode = field(server, "redis_mode").or_else(|| field(server, "server_mode"));
        if mode == Some("sentinel") {
            return Err(Trouble::Identity("this is a sentinel; use redis+sentinel://"));
        }
        Ok(Self {
            run_id: id(server, "run_id")?.to_owned(),
            history: master_history(replication)?.to_owned(),
            cluster: mode == Some("cluster"),
        })
    }

    /// Whether it is a node of a cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.cluster
    }

    /// Fails unless the answer to [`ask_history`] shows that the data set has the same history as
    /// when the server was recognised, so that everything before that answer happened in it.
    pub(crate) fn check_history(&self, answer: &Value) -> Result<(), Trouble> {
        if master_history(text(answer)?)? == self.history {
            Ok(())
        } else {
            Err(Trouble::Identity("the Redis server has other data than before"))
        }
    }

    /// By which the epoch is found.
    pub(crate) fn identity(&self) -> String {
        format!("{}/{}", self.run_id, self.history)
    }
}

/// Adds the question for the history. An answer that comes behind others vouches for them all.
pub(crate) fn ask_history(commands: &mut Pipeline) {
    commands.add_command(history_command());
}

fn history_command() -> Cmd {
    let mut command = Cmd::new();
    command.arg("INFO").arg("replication");
    command
}

const NO_INFO: Trouble = Trouble::Unexpected("what INFO tells");

fn text(answer: &Value) -> Result<&str, Trouble> {
    match answer {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| NO_INFO),
        Value::VerbatimString { text, .. } => Ok(text),
        Value::ServerError(error) => Err(Trouble::Refused(error.clone())),
        _ => Err(NO_INFO),
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// An ID of 40 hexadecimal digits. One of zeros means that there is none.
fn id<'a>(info: &'a str, name: &str) -> Result<&'a str, Trouble> {
    let id = field(info, name).ok_or(NO_INFO)?;
    let hex = id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex && id.bytes().any(|byte| byte != b'0') { Ok(id) } else { Err(NO_INFO) }
}

fn master_history(replication: &str) -> Result<&str, Trouble> {
    if field(replication, "role") != Some("master") {
        return Err(Trouble::Identity("the Redis server is not a master"));
    }
    id(replication, "master_replid")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn info(role: &str, id: &str) -> Value {
        let text = format!("# Replication\r\nrole:{role}\r\nmaster_replid:{id}\r\n");
        Value::BulkString(text.into_bytes())
    }

    fn server() -> Server {
        Server { run_id: ID.to_owned(), history: ID.to_owned(), cluster: false }
    }

    #[test]
    fn the_same_history_is_recognised() {
        assert!(server().check_history(&info("master", ID)).is_ok());
    }

    #[test]
    fn everything_else_is_not() {
        let other = ID.replace('0', "f");
        let zeros = "0".repeat(40);
        for answer in [
            info("master", &other),
            info("slave", ID),
            info("master", &zeros),
            info("master", "short"),
            Value::BulkString(b"role:master\r\n".to_vec()),
            Value::BulkString(vec![0xff]),
            Value::Nil,
            Value::Int(1),
        ] {
            assert!(server().check_history(&answer).is_err(), "{answer:?}");
        }
    }
}
