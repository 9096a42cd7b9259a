//! `id_generator`: the configuration block of OpenG2P's ID generator.
//!
//! A file that works there has to work here. What `idgen` refuses is therefore turned into what
//! has the same effect, with a warning; only what could never have issued an ID is an error.

use idgen::alphabet::Alphabet;
use idgen::check::Check;
use idgen::filters::{DIGITS_MAX, FilterSettings, FilterSpec};
use idgen::spec::{DEFAULT_TENANT, IdType, Kind, RandomSpec};
use serde::{Deserialize, Serialize};

use super::error::Findings;
use super::layers::ID_GENERATOR;
use super::parse::{Origin, parse};
use super::reader::{Reader, unknown_field};
use super::sections;
use super::tree::{Node, Source, Value, join};

/// The defaults of OpenG2P, as in its documentation. `config.default.yaml` shows the same block.
const DEFAULTS: &str = "
sequence_limit: 3
repeating_limit: 2
repeating_block_limit: 2
conjugative_even_digits_limit: 3
digits_group_limit: 5
reverse_digits_group_limit: 5
not_start_with: [\"0\", \"1\"]
restricted_numbers: []
pool_min_threshold: 1000
pool_generation_batch_size: 5000
pool_check_interval_seconds: 30
exhaustion_max_attempts: 1000
sub_batch_size: 10000
id_types: {}
";

/// The longest run of digits that count up or down without passing from 9 to 0.
const SEQUENCE_DIGITS_MAX: u64 = 10;

/// The block as it is in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenG2p {
    /// In the order of the file.
    pub(crate) id_types: Vec<OpenG2pIdType>,
    /// As configured, for the configuration route.
    pub(crate) filter_rules: FilterRules,
    /// A pool with fewer IDs is filled up.
    pub(crate) pool_min_threshold: u64,
    /// IDs that are added at a time.
    pub(crate) pool_generation_batch_size: u64,
    /// How often OpenG2P looks at its pools.
    pub(crate) pool_check_interval_seconds: u64,
    /// Candidates in a row after which OpenG2P gives up.
    pub(crate) exhaustion_max_attempts: u64,
    /// Candidates that OpenG2P holds in memory.
    pub(crate) sub_batch_size: u64,
}

/// An ID type of the block. The filters are the same for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenG2pIdType {
    pub(crate) name: String,
    pub(crate) id_length: u8,
}

/// The filter settings as they were written, in the order in which OpenG2P shows them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct FilterRules {
    pub(crate) sequence_limit: u64,
    pub(crate) repeating_limit: u64,
    pub(crate) repeating_block_limit: u64,
    pub(crate) conjugative_even_digits_limit: u64,
    pub(crate) digits_group_limit: u64,
    pub(crate) reverse_digits_group_limit: u64,
    pub(crate) not_start_with: Vec<String>,
    pub(crate) restricted_numbers: Vec<String>,
}

/// The settings that have nothing to do with filters.
#[derive(Deserialize)]
struct PoolSettings {
    pool_min_threshold: u64,
    pool_generation_batch_size: u64,
    pool_check_interval_seconds: u64,
    exhaustion_max_attempts: u64,
    sub_batch_size: u64,
}

#[derive(Deserialize)]
struct TypeSettings {
    id_length: u8,
}

/// The block that a user's block is laid over.
pub(crate) fn defaults() -> Node {
    match parse(DEFAULTS, Origin::Default) {
        Ok(node) => node,
        // A test reads it, so this does not happen; nothing is a safe answer all the same.
        Err(_) => Node::new(Value::Map(Vec::new()), Source::Default),
    }
}

/// Reads the block, if there is one, and the ID types that it stands for.
pub(crate) fn read(
    tree: &mut Node,
    findings: &mut Findings,
) -> (Option<OpenG2p>, Vec<(Source, IdType)>) {
    if !tree.get(ID_GENERATOR).is_some_and(|node| matches!(node.value, Value::Map(_))) {
        return (None, Vec::new());
    }
    let reset = defaults();
    let rules: Option<FilterRules> = sections::read(tree, ID_GENERATOR, &reset, findings);
    let pool: Option<PoolSettings> = sections::read(tree, ID_GENERATOR, &reset, findings);
    let (Some(rules), Some(pool)) = (rules, pool) else {
        return (None, Vec::new());
    };
    let filters = filter_spec(&rules, tree, findings);
    let mut types = Vec::new();
    let mut id_types = Vec::new();
    let listed = tree.at("id_generator.id_types").map_or(&[][..], Node::entries);
    for (name, node) in listed {
        let Some(id_length) = read_length(name, node, findings) else {
            continue;
        };
        match id_type(name, id_length, &filters) {
            Ok(id_type) => {
                warn_if_unreachable(name, &node.source, findings);
                types.push((node.source.clone(), id_type));
                id_types.push(OpenG2pIdType { name: name.clone(), id_length });
            }
            Err(message) => findings.error(&node.source, &type_path(name), message),
        }
    }
    let block = OpenG2p {
        id_types,
        filter_rules: rules,
        pool_min_threshold: pool.pool_min_threshold,
        pool_generation_batch_size: pool.pool_generation_batch_size,
        pool_check_interval_seconds: pool.pool_check_interval_seconds,
        exhaustion_max_attempts: pool.exhaustion_max_attempts,
        sub_batch_size: pool.sub_batch_size,
    };
    (Some(block), types)
}

fn type_path(name: &str) -> String {
    format!("{ID_GENERATOR}.id_types.{name}")
}

fn read_length(name: &str, node: &Node, findings: &mut Findings) -> Option<u8> {
    let path = type_path(name);
    for (key, child) in node.entries() {
        if key != "id_length" {
            let message = format!("ignored, because {}", unknown_field(key, &["id_length"]));
            findings.warn(&child.source, &join(&path, key), message);
        }
    }
    match TypeSettings::deserialize(Reader(node)) {
        Ok(settings) => Some(settings.id_length),
        Err(error) => {
            let (path, source, message) = error.located(&path, &node.source);
            findings.error(&source, &path, message);
            None
        }
    }
}

fn id_type(name: &str, length: u8, filters: &FilterSpec) -> Result<IdType, String> {
    let alphabet: Alphabet = "digits".parse().map_err(|error| format!("{error}"))?;
    let spec = RandomSpec {
        alphabet,
        length,
        check: Check::Verhoeff,
        filters: filters.clone(),
        group: None,
        allow_dense: false,
        ledger: idgen::spec::Ledger::Stored,
    };
    IdType::new(DEFAULT_TENANT, name, Kind::Random(spec)).map_err(|errors| {
        let tell = |error: &idgen::error::FieldError| match error.field.as_str() {
            "random.length" => format!("id_length: {}", error.message),
            _ => error.to_string(),
        };
        errors.0.iter().map(tell).collect::<Vec<_>>().join("; ")
    })
}

/// OpenG2P's routes accept fewer names than we do.
fn warn_if_unreachable(name: &str, source: &Source, findings: &mut Findings) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let reachable = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(plain)
        && (2..=64).contains(&name.len());
    if !reachable {
        findings.warn(
            source,
            &type_path(name),
            "OpenG2P's routes cannot reach this name; they accept 2 to 64 lower-case letters, \
             digits and '_', starting with a letter",
        );
    }
}

/// What the rules mean to `idgen`.
fn filter_spec(rules: &FilterRules, tree: &Node, findings: &mut Findings) -> FilterSpec {
    let mut translation = Translation { tree, findings };
    let settings = FilterSettings {
        sequence_limit: translation.sequence(rules.sequence_limit),
        repeating_limit: translation.repeating(rules.repeating_limit),
        repeating_block_limit: translation.block(rules.repeating_block_limit),
        conjugative_even_digits_limit: translation.even(rules.conjugative_even_digits_limit),
        digits_group_limit: translation.limit("digits_group_limit", rules.digits_group_limit),
        reverse_digits_group_limit: translation
            .limit("reverse_digits_group_limit", rules.reverse_digits_group_limit),
        not_start_with: translation.numbers("not_start_with", &rules.not_start_with, 1),
        restricted_numbers: translation.numbers(
            "restricted_numbers",
            &rules.restricted_numbers,
            DIGITS_MAX,
        ),
        ..FilterSettings::default()
    };
    let mut refused = Vec::new();
    settings.validate(&mut refused);
    for (field, message) in refused {
        let path = join(ID_GENERATOR, &field);
        findings.error(&tree.source_of(&path), &path, message);
    }
    if settings == FilterSettings::default() {
        FilterSpec::Openg2p
    } else {
        FilterSpec::Settings(settings)
    }
}

/// Turns limits that OpenG2P accepts into ones that `idgen` accepts.
struct Translation<'a> {
    tree: &'a Node,
    findings: &'a mut Findings,
}

impl Translation<'_> {
    fn warn(&mut self, field: &str, message: impl std::fmt::Display) {
        let path = join(ID_GENERATOR, field);
        self.findings.warn(&self.tree.source_of(&path), &path, message);
    }

    /// A limit longer than any ID never applies, which is what 0 says.
    fn limit(&mut self, field: &str, limit: u64) -> u32 {
        match u32::try_from(limit) {
            Ok(limit) if limit as usize <= DIGITS_MAX => limit,
            _ => self.out_of_reach(field, limit),
        }
    }

    fn out_of_reach(&mut self, field: &str, limit: u64) -> u32 {
        self.warn(field, format!("{limit} can never be reached, so the rule is switched off"));
        0
    }

    fn sequence(&mut self, limit: u64) -> u32 {
        let field = "sequence_limit";
        if limit == 0 {
            self.warn_about_zero(field);
        } else if limit > SEQUENCE_DIGITS_MAX {
            return self.out_of_reach(field, limit);
        }
        self.limit(field, limit)
    }

    fn block(&mut self, limit: u64) -> u32 {
        let field = "repeating_block_limit";
        if limit == 0 {
            self.warn_about_zero(field);
        }
        self.limit(field, limit)
    }

    fn warn_about_zero(&mut self, field: &str) {
        self.warn(field, "0 switches the rule off here; in OpenG2P it rejects every ID");
    }

    /// Digits of an ID are at most 31 apart, so everything from 32 on forbids any repetition.
    fn repeating(&mut self, limit: u64) -> u32 {
        let field = "repeating_limit";
        if limit > DIGITS_MAX as u64 {
            self.warn(field, format!("{limit} is read as {DIGITS_MAX}, which has the same effect"));
        }
        u32::try_from(limit.min(DIGITS_MAX as u64)).unwrap_or(0)
    }

    fn even(&mut self, limit: u64) -> u32 {
        let field = "conjugative_even_digits_limit";
        if limit == 0 {
            self.warn(
                field,
                "0 rejects every even digit, as 1 does; use 33 to switch the rule off",
            );
            return 1;
        }
        self.limit(field, limit)
    }

    /// Leaves out entries that could never match.
    fn numbers(&mut self, field: &str, entries: &[String], digits_max: usize) -> Vec<String> {
        let accepted = if digits_max == 1 { "single digits" } else { "1 to 32 digits" };
        let mut kept = Vec::new();
        for entry in entries {
            let digits = entry.bytes().all(|byte| byte.is_ascii_digit());
            if digits && (1..=digits_max).contains(&entry.len()) {
                kept.push(entry.clone());
            } else {
                let message =
                    format!("{entry:?} is ignored, because it never matches; use {accepted}");
                self.warn(field, message);
            }
        }
        kept
    }
}
