//! The ID types that are issued during a run.

/// What the IDs of a type are made from, which decides on where they are accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Serials from a pool in Redis; in the issue log or a gap.
    Sequence,
    /// Rows of a table in PostgreSQL, which say themselves whether they were taken.
    Random,
    /// Time, node and counter; in the issue log or a gap of the node.
    Snowflake,
}

/// One ID type.
#[derive(Debug)]
pub(crate) struct IdType {
    pub(crate) tenant: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How many of 100 requests are for it.
    pub(crate) share: u64,
    /// How many IDs there can be, for the one that is meant to run out.
    pub(crate) space: Option<usize>,
}

impl IdType {
    /// Its name with that of its tenant.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }
}

/// Two tenants, so that both shards are in use.
pub(crate) const CONFIG: &str = r#"
id_types:
  - { name: order, sequence: { template: "ORD-{seq:08}" } }
  - { tenant: acme, name: invoice, sequence: { template: "INV-{yyyy}-{seq:06}", reset: yearly } }
  - { tenant: acme, name: badge, random: { alphabet: crockford32, length: 12, check: iso7064 } }
  - { name: ticket, random: { alphabet: hex, length: 3, allow_dense: true } }
  - { name: event, snowflake: {} }
  - { name: seal, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { tenant: acme, name: cap, random: { alphabet: crockford32, length: 16 } }
  - { name: paper, sequence: { template: "PAP-{seq:06}" } }
  - { tenant: acme, name: receipt, sequence: { template: "REC-{seq:06}", gapless: true } }
documents: { timeout_seconds: 2, retry_seconds: 1, reconcile_seconds: 1 }
batches: { chunk_codes: 1000, retry_milliseconds: 200 }
"#;

/// Those that are issued one by one, as the test sees them.
pub(crate) const TYPES: [IdType; 5] = [
    IdType { tenant: "default", name: "order", kind: Kind::Sequence, share: 38, space: None },
    IdType { tenant: "acme", name: "invoice", kind: Kind::Sequence, share: 26, space: None },
    IdType { tenant: "acme", name: "badge", kind: Kind::Random, share: 16, space: None },
    IdType { tenant: "default", name: "ticket", kind: Kind::Random, share: 8, space: Some(4096) },
    IdType { tenant: "default", name: "event", kind: Kind::Snowflake, share: 12, space: None },
];

/// The serial in the ID of a sequence, or a snowflake, which is its own.
pub(crate) fn serial_in(id: &str) -> Option<u64> {
    id.rsplit('-').next()?.parse().ok()
}

/// The counter that a snowflake was drawn from.
pub(crate) fn node_period(snowflake: u64) -> String {
    format!("node-{}", (snowflake >> 12) & 1023)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_out_of_a_hundred() {
        assert_eq!(TYPES.iter().map(|id_type| id_type.share).sum::<u64>(), 100);
    }

    #[test]
    fn serials_are_read_from_ids() {
        assert_eq!(serial_in("ORD-00000042"), Some(42));
        assert_eq!(serial_in("INV-2026-000007"), Some(7));
        assert_eq!(serial_in("123456"), Some(123_456));
        assert_eq!(node_period(5 << 22 | 3 << 12 | 9), "node-3");
    }
}
