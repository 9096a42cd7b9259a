//! The numbers of batches, and of the codes in them.

use serde::{Deserialize, Serialize};

/// Bits of a snowflake: counter, and counter with node.
const COUNTER_BITS: u32 = 12;
const TIME_SHIFT: u32 = 22;

/// Snowflakes of one node in one millisecond.
pub const SNOWFLAKES_PER_MS: u64 = 1 << COUNTER_BITS;

/// 2024-01-01T00:00:00Z in milliseconds since 1970: the epoch of batch and code IDs.
pub const SNOWFLAKE_EPOCH_MS: i64 = 1_704_067_200_000;

/// A batch. A snowflake: the time of the order, and in the place of the node the shard of its tenant,
/// so that it says where its rows are. The snowflakes behind it are those of its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub i64);

impl BatchId {
    /// The batch that is ordered at a millisecond since [`SNOWFLAKE_EPOCH_MS`] on a shard.
    pub fn new(ms: i64, shard: u16) -> Self {
        Self(ms << TIME_SHIFT | i64::from(shard) << COUNTER_BITS)
    }

    /// The shard.
    pub fn shard(self) -> u16 {
        u16::try_from(self.0 >> COUNTER_BITS & 0x3ff).unwrap_or(0)
    }

    /// Milliseconds of snowflakes that a batch of so many codes takes, itself included.
    pub fn span_ms(count: u64) -> u64 {
        count / SNOWFLAKES_PER_MS + 1
    }

    /// The ID of one of its codes, counted from 0.
    pub fn code_id(self, position: u64) -> i64 {
        let behind = position + 1;
        let ms = i64::try_from(behind / SNOWFLAKES_PER_MS).unwrap_or(i64::MAX);
        let counter = i64::try_from(behind % SNOWFLAKES_PER_MS).unwrap_or(0);
        self.0 + (ms << TIME_SHIFT) + counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_codes_follow_that_of_their_batch() {
        let batch = BatchId::new(1000, 3);
        assert_eq!(batch.shard(), 3);
        assert_eq!(batch.code_id(0), batch.0 + 1);
        assert_eq!(batch.code_id(SNOWFLAKES_PER_MS - 1), BatchId::new(1001, 3).0);
        assert_eq!(batch.code_id(2 * SNOWFLAKES_PER_MS), BatchId::new(1002, 3).0 + 1);
    }

    #[test]
    fn a_batch_takes_the_time_of_all_its_ids() {
        for count in [1, 4094, 4095, 4096, 8191, 1_000_000] {
            let last = BatchId::new(0, 0).code_id(count - 1);
            let next = BatchId::new(i64::try_from(BatchId::span_ms(count)).unwrap(), 0).0;
            assert!(last < next && next - last <= 1 << TIME_SHIFT, "{count}");
        }
    }
}
