//! The layout of a cluster: its masters and the slots that they own.

use redis::{Cmd, Value};

use crate::error::Trouble;
use crate::slots::SLOTS;
use crate::target::{Address, Place};
use crate::wire::Wire;

/// Consecutive slots that one master owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slots {
    pub(crate) first: u16,
    pub(crate) last: u16,
    /// The master's place in the list of masters.
    pub(crate) node: usize,
}

impl Slots {
    pub(crate) fn contain(&self, slot: u16) -> bool {
        (self.first..=self.last).contains(&slot)
    }
}

/// Who owns what, as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) masters: Vec<Address>,
    /// All slots of the cluster, in order.
    pub(crate) slots: Vec<Slots>,
}

/// A node that is asked for the layout, at first and again and again.
pub(crate) struct Guide {
    pub(crate) wire: Wire,
    pub(crate) place: Place,
}

impl Guide {
    pub(crate) async fn layout(&self) -> Result<Layout, Trouble> {
        let mut command = Cmd::new();
        command.arg("CLUSTER").arg("SLOTS");
        read(&self.wire.ask(&command).await?, &self.place.address)
    }
}

fn read(answer: &Value, asked: &Address) -> Result<Layout, Trouble> {
    let mut ranges = Vec::new();
    for range in array(answer)? {
        let [first, last, master, ..] = array(range)? else { return Err(NO_LAYOUT) };
        ranges.push((number(first)?, number(last)?, address(master, asked)?));
    }
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    let (mut masters, mut slots) = (Vec::new(), Vec::with_capacity(ranges.len()));
    let mut next = 0;
    for (first, last, address) in ranges {
        if first != next || last < first {
            return Err(INCOMPLETE);
        }
        next = last.saturating_add(1);
        let node = masters.iter().position(|known| *known == address).unwrap_or(masters.len());
        if node == masters.len() {
            masters.push(address);
        }
        slots.push(Slots { first, last, node });
    }
    if next == SLOTS { Ok(Layout { masters, slots }) } else { Err(INCOMPLETE) }
}

/// Where a node listens. One that does not know its own name is where it was asked.
fn address(node: &Value, asked: &Address) -> Result<Address, Trouble> {
    let [host, port, ..] = array(node)? else { return Err(NO_LAYOUT) };
    let Address::Tcp { host: asked, tls, .. } = asked else { return Err(NO_LAYOUT) };
    let host = match host {
        Value::Nil => asked.clone(),
        Value::BulkString(host) => match std::str::from_utf8(host) {
            Ok("" | "?") => asked.clone(),
            Ok(host) => host.to_owned(),
            Err(_) => return Err(NO_LAYOUT),
        },
        _ => return Err(NO_LAYOUT),
    };
    Ok(Address::Tcp { host, port: number(port)?, tls: *tls })
}

fn array(value: &Value) -> Result<&[Value], Trouble> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(NO_LAYOUT),
    }
}

fn number(value: &Value) -> Result<u16, Trouble> {
    match value {
        Value::Int(number) => u16::try_from(*number).map_err(|_| NO_LAYOUT),
        _ => Err(NO_LAYOUT),
    }
}

const INCOMPLETE: Trouble = Trouble::Identity("the Redis cluster does not serve all slots");
const NO_LAYOUT: Trouble = Trouble::Unexpected("the layout of a cluster");

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.into()));
        let master = Value::Array(vec![host, Value::Int(port), Value::BulkString("id".into())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port, tls: false }
    }

    #[test]
    fn masters_are_found_once_and_slots_in_order() {
        let answer = Value::Array(vec![
            range(9000, 16_383, Some("b"), 1),
            range(0, 99, None, 2),
            range(100, 8999, Some("b"), 1),
        ]);
        let layout = read(&answer, &tcp("seed", 9)).unwrap();
        assert_eq!(layout.masters, [tcp("seed", 2), tcp("b", 1)]);
        let slots: Vec<_> = layout.slots.iter().map(|s| (s.first, s.last, s.node)).collect();
        assert_eq!(slots, [(0, 99, 0), (100, 8999, 1), (9000, 16_383, 1)]);
    }

    #[test]
    fn a_layout_with_a_hole_is_refused() {
        for ranges in [
            vec![],
            vec![range(0, 16_382, Some("a"), 1)],
            vec![range(0, 99, Some("a"), 1), range(101, 16_383, Some("a"), 1)],
            vec![range(0, 16_383, Some("a"), 1), range(0, 16_383, Some("b"), 1)],
        ] {
            let layout = read(&Value::Array(ranges), &tcp("seed", 9));
            assert!(layout.is_err(), "{layout:?}");
        }
        assert!(read(&Value::Nil, &tcp("seed", 9)).is_err());
    }
}
