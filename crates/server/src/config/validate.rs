//! What is wrong or risky about settings that can be read: names, and fields that contradict each other.

use std::collections::HashMap;
use std::net::SocketAddr;

use idgen::snowflake::SnowflakeSpec;
use idgen::spec::{IdType, Kind};

use super::Config;
use super::error::Findings;
use super::limits::REQUESTS_PER_SECOND_MAX;
use super::security::Authentication;
use super::tree::{Node, Source};

/// A slower rhythm than this makes the gaps after a crash wide.
const LOG_FLUSH_MILLISECONDS_CALM: u32 = 1_000;

/// The name of each tenant must be one, and stand there once.
pub(crate) fn check_tenants(config: &Config, tree: &Node, findings: &mut Findings) {
    let mut seen = HashMap::new();
    for (i, tenant) in config.tenants.iter().enumerate() {
        let path = format!("tenants[{i}]");
        let source = tree.source_of(&path);
        if let Some(message) = name_mistake(&tenant.name) {
            findings.error(&source, &format!("{path}.name"), message);
        }
        if let Some(first) = seen.insert(tenant.name.as_str(), source.clone()) {
            let message = format!("the tenant {} is listed twice, first in {first}", tenant.name);
            findings.error(&source, &path, message);
        }
        let limits = 1..=REQUESTS_PER_SECOND_MAX;
        if tenant.requests_per_second.is_some_and(|limit| !limits.contains(&limit)) {
            let message = format!("use 1 to {REQUESTS_PER_SECOND_MAX}, or null for no limit");
            findings.error(&source, &format!("{path}.requests_per_second"), message);
        }
        if tenant.codes_max.is_some_and(|codes| i64::try_from(codes).is_err()) {
            let message = format!("use 0 to {}, or null", i64::MAX);
            findings.error(&source, &format!("{path}.codes_max"), message);
        }
    }
}

/// Whether the server would accept the keys.
pub(crate) fn check_keys(config: &Config, tree: &Node, findings: &mut Findings) {
    let mut seen = HashMap::new();
    for (i, key) in config.keys.iter().enumerate() {
        let path = format!("keys[{i}]");
        let source = tree.source_of(&path);
        let mut error = |field: &str, message: String| {
            findings.error(&source, &format!("{path}.{field}"), message);
        };
        if key.name.trim().is_empty() {
            error("name", "give the key a name of 1 to 100 characters".to_owned());
        }
        if key.scopes.is_empty() {
            error("scopes", "give at least one of issue, batch, scan, admin".to_owned());
        }
        if let Some(message) = key.tenant.as_deref().and_then(name_mistake) {
            error("tenant", message);
        }
        let limits = 1..=REQUESTS_PER_SECOND_MAX;
        if key.requests_per_second.is_some_and(|limit| !limits.contains(&limit)) {
            let message = format!("use 1 to {REQUESTS_PER_SECOND_MAX}, or null for the default");
            error("requests_per_second", message);
        }
        if seen.insert(key.token.expose(), i).is_some() {
            error("token", "two keys have the same token".to_owned());
        }
    }
}

/// Why a text cannot be the name of a tenant. `idgen` knows the rule.
fn name_mistake(tenant: &str) -> Option<String> {
    let kind = Kind::Snowflake(SnowflakeSpec::default());
    let errors = IdType::new(tenant, "x", kind).err()?;
    errors.0.into_iter().next().map(|error| error.message)
}

/// An ID type must be the only one of its name within the tenant.
pub(crate) fn check_duplicates(types: &[(Source, IdType)], findings: &mut Findings) {
    let mut seen = HashMap::new();
    for (source, id_type) in types {
        if let Some(first) = seen.insert((id_type.tenant(), id_type.name()), source) {
            let message = format!(
                "the ID type {} of the tenant {} is defined twice, first in {first}",
                id_type.name(),
                id_type.tenant()
            );
            findings.error(source, "id_types", message);
        }
    }
}

/// Fields that are right alone and wrong, or risky, together.
pub(crate) fn check_as_a_whole(config: &Config, tree: &Node, findings: &mut Findings) {
    let mut check = Check { tree, findings };
    check.security(config);
    check.issuing(config);
    check.server(config);
    check.cluster(config);
    check.batches(config);
    check.public(config);
}

struct Check<'a> {
    tree: &'a Node,
    findings: &'a mut Findings,
}

impl Check<'_> {
    fn error(&mut self, path: &str, message: impl std::fmt::Display) {
        self.findings.error(&self.tree.source_of(path), path, message);
    }

    fn warn(&mut self, path: &str, message: impl std::fmt::Display) {
        self.findings.warn(&self.tree.source_of(path), path, message);
    }

    /// The one of two fields that the user wrote, so that the message points to a place that
    /// exists.
    fn written<'p>(&self, first: &'p str, second: &'p str) -> &'p str {
        if self.tree.source_of(first) == Source::Default { second } else { first }
    }

    fn security(&mut self, config: &Config) {
        let security = &config.security;
        if security.authentication == Authentication::Off {
            self.authentication_off(config.server.listen);
        }
        if security.master_key.is_some() {
            if security.master_key_file.is_some() {
                self.error(
                    "security.master_key_file",
                    "master_key is given too; use only one of them and set the other to null",
                );
            }
            if let Source::File { name, .. } = self.tree.source_of("security.master_key") {
                self.warn(
                    "security.master_key",
                    format!(
                        "whoever can read {name} can read the master key; use the variable \
                         MINTAGE__SECURITY__MASTER_KEY or master_key_file"
                    ),
                );
            }
        }
        for (path, file) in [
            ("store.directory", Some(&config.store.directory)),
            ("security.master_key_file", security.master_key_file.as_ref()),
        ] {
            if file.is_some_and(|file| file.as_os_str().is_empty()) {
                self.error(path, "it is empty; use a path");
            }
        }
    }

    fn authentication_off(&mut self, listen: SocketAddr) {
        if listen.ip().is_loopback() {
            self.warn(
                "security.authentication",
                "off lets every program on this machine issue IDs and change settings",
            );
            return;
        }
        let path = self.written("security.authentication", "server.listen");
        self.error(
            path,
            format!(
                "security.authentication is off while server.listen is {listen}, which others can \
                 reach; use auto or required, or listen on 127.0.0.1"
            ),
        );
    }

    fn issuing(&mut self, config: &Config) {
        let issuing = &config.issuing;
        let (min, max) = (issuing.pool_size_min, issuing.pool_size_max);
        // Written so that NaN is refused as well.
        if !(issuing.watermark > 0.0 && issuing.watermark < 1.0) {
            self.error(
                "issuing.watermark",
                format!(
                    "{} is outside the limits; use a number above 0 and below 1",
                    issuing.watermark
                ),
            );
        }
        if min > max {
            let path = self.written("issuing.pool_size_min", "issuing.pool_size_max");
            self.error(
                path,
                format!("pool_size_min ({min}) is larger than pool_size_max ({max}); use at most as much"),
            );
        } else if issuing.count_max > max {
            let path = self.written("issuing.count_max", "issuing.pool_size_max");
            self.warn(
                path,
                format!(
                    "a call for count_max ({}) IDs is more than the largest pool holds \
                     (pool_size_max, {max}), so it always waits for the store",
                    issuing.count_max
                ),
            );
        }
        if issuing.log_flush_milliseconds > LOG_FLUSH_MILLISECONDS_CALM {
            self.warn(
                "issuing.log_flush_milliseconds",
                format!(
                    "IDs issued in the last {} ms before a crash will be recorded as a gap and \
                     not as issued",
                    issuing.log_flush_milliseconds
                ),
            );
        }
    }

    fn cluster(&mut self, config: &Config) {
        let (postgres, redis) = (&config.postgres, &config.redis);
        if postgres.url.is_none() {
            if !postgres.shards.is_empty() || postgres.replica.is_some() {
                let path = self.written("postgres.shards", "postgres.replica");
                self.error(path, "postgres.url is missing; it is the first database");
            }
            if redis.url.is_some() {
                self.error(
                    "redis.url",
                    "Redis holds nothing that may be lost, so it needs postgres.url beside it",
                );
            }
        }
        if u64::from(redis.lock_seconds) * 1000 < 4 * u64::from(redis.timeout_milliseconds) {
            let path = self.written("redis.lock_seconds", "redis.timeout_milliseconds");
            self.error(
                path,
                "the lock must live at least four times as long as an answer may take",
            );
        }
        for (path, url) in
            [("postgres.url", &postgres.url), ("postgres.replica", &postgres.replica)]
        {
            let schemes = ["postgres://", "postgresql://"];
            let right = |url: &str| schemes.iter().any(|scheme| url.starts_with(scheme));
            if url.as_ref().is_some_and(|url| !right(url.expose())) {
                self.error(path, "use postgres://user:password@host:port/database");
            }
        }
    }

    fn batches(&mut self, config: &Config) {
        if config.batches.workers == 0 && config.postgres.url.is_none() {
            self.warn(
                "batches.workers",
                "0 leaves the codes to other instances, and on the embedded store there are none",
            );
        }
    }

    fn public(&mut self, config: &Config) {
        let public = &config.public;
        if public.types.is_empty() {
            return;
        }
        let timeout = config.server.request_timeout_seconds;
        if public.miss_milliseconds / 1000 >= timeout {
            let path = self.written("public.miss_milliseconds", "server.request_timeout_seconds");
            self.error(
                path,
                format!(
                    "miss_milliseconds ({}) must be less than request_timeout_seconds ({timeout}), \
                     or every unknown code is answered with 503",
                    public.miss_milliseconds
                ),
            );
        }
        if public.trusted_proxies.is_empty() {
            self.warn(
                "public.types",
                "public.trusted_proxies is empty, so behind a proxy all visitors are taken for one \
                 and share its limit",
            );
        }
        if public.trusted_proxies.iter().any(|proxy| proxy.0.prefix_len() == 0) {
            self.warn(
                "public.trusted_proxies",
                "it contains every address, so visitors can say that they are somebody else",
            );
        }
        let (address, network) = (public.scans_per_minute, public.scans_per_minute_of_network);
        if address > network {
            let path =
                self.written("public.scans_per_minute", "public.scans_per_minute_of_network");
            self.warn(
                path,
                format!(
                    "scans_per_minute ({address}) is never reached, because its network may not \
                     have more than {network}"
                ),
            );
        }
    }

    fn server(&mut self, config: &Config) {
        let (each, largest) = [
            ("server.body_limit_bytes", config.server.body_limit_bytes),
            ("documents.body_bytes_max", config.documents.body_bytes_max),
        ]
        .into_iter()
        .max_by_key(|(_, bytes)| *bytes)
        .unwrap_or_default();
        let all = config.server.bodies_bytes_max;
        if all < largest {
            let path = self.written("server.bodies_bytes_max", each);
            self.error(
                path,
                format!(
                    "server.bodies_bytes_max ({all}) is for all bodies together and must not be less than \
                     {each} ({largest})"
                ),
            );
        }
        let timeout = config.server.request_timeout_seconds;
        if u64::from(config.issuing.wait_milliseconds_max) >= u64::from(timeout) * 1_000 {
            let path =
                self.written("issuing.wait_milliseconds_max", "server.request_timeout_seconds");
            self.warn(
                path,
                format!(
                    "wait_milliseconds_max ({}) is never reached, because request_timeout_seconds \
                     ({timeout}) ends the request first",
                    config.issuing.wait_milliseconds_max
                ),
            );
        }
        if config.server.header_timeout_seconds > timeout {
            let path =
                self.written("server.header_timeout_seconds", "server.request_timeout_seconds");
            self.warn(
                path,
                format!(
                    "header_timeout_seconds ({}) is longer than request_timeout_seconds \
                     ({timeout}): a client may take longer to ask than the server to answer",
                    config.server.header_timeout_seconds
                ),
            );
        }
    }
}
