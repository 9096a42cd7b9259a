//! Several instances on the same servers, as real processes: on PostgreSQL alone, and on PostgreSQL
//! with Redis.

#[path = "../support/mod.rs"]
mod support;

/// Makes a test on PostgreSQL alone and one on PostgreSQL with Redis of each of these functions.
macro_rules! on_every_cluster {
    ($($behaviour:ident),+ $(,)?) => {
        mod postgres {
            $(#[test]
            fn $behaviour() {
                super::$behaviour(crate::support::Deployment::Postgres);
            })+
        }
        mod postgres_and_redis {
            $(#[test]
            fn $behaviour() {
                super::$behaviour(crate::support::Deployment::PostgresAndRedis);
            })+
        }
    };
}

mod batches;
mod catalogue;
mod crashes;
mod crowded;
mod dispatch;
mod documents;
mod exhaustion;
mod full_sink;
mod hot_codes;
mod idempotency;
mod instances;
mod load;
mod openg2p;
mod pauses;
mod postgres_outage;
mod public;
mod redis_outage;
mod refill_lock;
mod restarts;
mod shards;
mod silence;
mod starting;
mod webhooks;
mod workers;
