//! Configuration: the compiled-in defaults, a file over them, and environment variables over both.
//!
//! Every value remembers where it was written ([`tree`]), so that each complaint names the file
//! and line or the variable, and `mintage config show` can tell where a setting comes from.
//!
//! How to add a setting: write it into `config.default.yaml` with a comment, add the field to the
//! struct of its section, and give a whole number its limits in [`limits::LIMITS`]. What it must not
//! be combined with goes to [`validate`]. A secret is also named in [`show::SECRETS`].

mod batches;
mod cluster;
mod codes;
mod documents;
mod environment;
mod error;
mod issuing;
mod keys;
mod layers;
mod limits;
mod log;
mod openg2p;
mod outbound;
mod parse;
mod public;
mod reader;
mod secret;
mod sections;
mod security;
mod server;
mod show;
mod store;
mod suggest;
mod tenants;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod webhooks;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use idgen::spec::IdType;
use serde::de::DeserializeOwned;

use self::error::Findings;
use self::layers::ID_GENERATOR;
use self::parse::{NotYaml, Origin};
use self::reader::Reader;
use self::tree::{Node, Source, Value};

pub(crate) use self::batches::BatchesConfig;
pub(crate) use self::cluster::{ClusterConfig, PostgresConfig, RedisConfig};
pub(crate) use self::codes::CodesConfig;
pub(crate) use self::documents::DocumentsConfig;
pub(crate) use self::error::ConfigError;
pub(crate) use self::issuing::IssuingConfig;
pub(crate) use self::keys::KeyConfig;
pub(crate) use self::log::{LogConfig, LogFormat};
pub(crate) use self::openg2p::OpenG2p;
pub(crate) use self::outbound::OutboundConfig;
pub(crate) use self::public::{PublicConfig, PublicType};
pub(crate) use self::secret::SecretText;
pub(crate) use self::security::{Authentication, SecurityConfig};
pub(crate) use self::server::ServerConfig;
pub(crate) use self::show::Effective;
pub(crate) use self::store::StoreConfig;
pub(crate) use self::tenants::TenantConfig;
pub(crate) use self::webhooks::WebhooksConfig;

/// The defaults, which are also the manual.
pub(crate) const DEFAULTS: &str = include_str!("../../../../config.default.yaml");

/// The names of the lists.
const ID_TYPES: &str = "id_types";
const TENANTS: &str = "tenants";
const KEYS: &str = "keys";

/// All settings. A value of this type is valid.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// How the server listens.
    pub(crate) server: ServerConfig,
    /// Where it remembers.
    pub(crate) store: StoreConfig,
    /// The database of many instances.
    pub(crate) postgres: PostgresConfig,
    /// The pools of many instances.
    pub(crate) redis: RedisConfig,
    /// How instances live together.
    pub(crate) cluster: ClusterConfig,
    /// Who may do what.
    pub(crate) security: SecurityConfig,
    /// How IDs are handed out.
    pub(crate) issuing: IssuingConfig,
    /// How codes are made.
    pub(crate) batches: BatchesConfig,
    /// What happens to codes.
    pub(crate) codes: CodesConfig,
    /// How documents are delivered.
    pub(crate) documents: DocumentsConfig,
    /// How others are told what happened.
    pub(crate) webhooks: WebhooksConfig,
    /// What anybody may ask.
    pub(crate) public: PublicConfig,
    /// Where deliveries may go.
    pub(crate) outbound: OutboundConfig,
    /// What is logged.
    pub(crate) log: LogConfig,
    /// Tenants with settings of their own.
    pub(crate) tenants: Vec<TenantConfig>,
    /// API keys whose tokens are configured.
    pub(crate) keys: Vec<KeyConfig>,
    /// Every ID type, those of [`openg2p`](Self::openg2p) last.
    pub(crate) id_types: Vec<IdType>,
    /// The block of OpenG2P, where there is one.
    pub(crate) openg2p: Option<OpenG2p>,
    /// Risky combinations, one sentence each.
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// Reads the configuration, and what `mintage config show` prints. The environment is an
    /// argument, so that nothing depends on the process that this runs in.
    pub(crate) fn load_with_sources(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(Self, Effective), ConfigError> {
        let mut findings = Findings::default();
        let defaults = parsed(DEFAULTS, Origin::Default)?;
        let mut tree = defaults.clone();
        if let Some(path) = file {
            layers::lay_over(&mut tree, read_file(path)?, "", &mut findings);
        }
        let environment: Vec<_> = environment.collect();
        environment::lay_variables_over(&mut tree, environment.iter().cloned(), &mut findings);
        environment::lay_database_over(&mut tree, &environment, &mut findings);
        leave_out_samples(&mut tree);

        let config = read(&mut tree, &defaults, &mut findings);
        let warnings = findings.into_result()?;
        match config {
            Some(config) => Ok((Self { warnings, ..config }, Effective::new(tree))),
            None => Err(ConfigError::one("the built-in defaults are damaged".to_owned())),
        }
    }
}

fn read_file(path: &Path) -> Result<Node, ConfigError> {
    let name: Arc<str> = Arc::from(path.display().to_string());
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigError::one(format!("cannot read {name}: {error}")))?;
    parsed(&text, Origin::File(&name))
}

fn parsed(text: &str, origin: Origin<'_>) -> Result<Node, ConfigError> {
    parse::parse(text, origin).map_err(|NotYaml { source, message }| {
        ConfigError::one(format!("{source}: not YAML or JSON: {message}"))
    })
}

/// An `OpenG2P` deployment brings its own ID types; our samples would only be in the way.
fn leave_out_samples(tree: &mut Node) {
    let block = tree.get(ID_GENERATOR).filter(|node| matches!(node.value, Value::Map(_)));
    let Some(source) = block.map(|node| node.source.clone()) else {
        return;
    };
    if let Some(types) = tree.at_mut(ID_TYPES).filter(|node| node.source == Source::Default) {
        *types = Node::new(Value::List(Vec::new()), source);
    }
}

/// Reads every section and checks them as a whole. Where something is wrong, the findings say so
/// and the result is of no use.
fn read(tree: &mut Node, defaults: &Node, findings: &mut Findings) -> Option<Config> {
    limits::check_limits(tree, defaults, findings);
    let server = section(tree, defaults, "server", findings);
    let store = section(tree, defaults, "store", findings);
    let postgres = section(tree, defaults, "postgres", findings);
    let redis = section(tree, defaults, "redis", findings);
    let cluster = section(tree, defaults, "cluster", findings);
    let security = section(tree, defaults, "security", findings);
    let issuing = section(tree, defaults, "issuing", findings);
    let batches = section(tree, defaults, "batches", findings);
    let codes = section(tree, defaults, "codes", findings);
    let documents = section(tree, defaults, "documents", findings);
    let webhooks = section(tree, defaults, "webhooks", findings);
    let public = section(tree, defaults, "public", findings);
    let outbound = section(tree, defaults, "outbound", findings);
    let log = section(tree, defaults, "log", findings);
    let tenants = list(tree, TENANTS, findings);
    let keys = list(tree, KEYS, findings);
    let mut id_types = id_types(tree, findings);
    let (openg2p, openg2p_types) = openg2p::read(tree, findings);
    id_types.extend(openg2p_types);
    validate::check_duplicates(&id_types, findings);
    let config = Config {
        server: server?,
        store: store?,
        postgres: postgres?,
        redis: redis?,
        cluster: cluster?,
        security: security?,
        issuing: issuing?,
        batches: batches?,
        codes: codes?,
        documents: documents?,
        webhooks: webhooks?,
        public: public?,
        outbound: outbound?,
        log: log?,
        tenants,
        keys,
        id_types: id_types.into_iter().map(|(_, id_type)| id_type).collect(),
        openg2p,
        warnings: Vec::new(),
    };
    validate::check_tenants(&config, tree, findings);
    validate::check_keys(&config, tree, findings);
    validate::check_as_a_whole(&config, tree, findings);
    Some(config)
}

fn section<T: DeserializeOwned>(
    tree: &mut Node,
    defaults: &Node,
    name: &str,
    findings: &mut Findings,
) -> Option<T> {
    sections::read(tree, name, defaults.get(name)?, findings)
}

/// The entries of a list that can be read.
fn list<T: DeserializeOwned>(tree: &Node, name: &str, findings: &mut Findings) -> Vec<T> {
    let mut read = Vec::new();
    for (i, item) in tree.get(name).map_or(&[][..], Node::items).iter().enumerate() {
        match T::deserialize(Reader(item)) {
            Ok(entry) => read.push(entry),
            Err(error) => {
                let root = format!("{name}[{i}]");
                let (path, source, message) = error.located(&root, &item.source);
                findings.error(&source, &path, message);
            }
        }
    }
    read
}

/// The ID types that can be read. `idgen` reads them, because it can tell all that is wrong.
fn id_types(tree: &Node, findings: &mut Findings) -> Vec<(Source, IdType)> {
    let mut read = Vec::new();
    for (i, item) in tree.get(ID_TYPES).map_or(&[][..], Node::items).iter().enumerate() {
        match IdType::from_value(item.to_json()) {
            Ok(id_type) => read.push((item.source.clone(), id_type)),
            Err(errors) => {
                for error in errors.0 {
                    let path = format!("{ID_TYPES}[{i}].{}", error.field);
                    findings.error(&tree.source_of(&path), &path, error.message);
                }
            }
        }
    }
    read
}
