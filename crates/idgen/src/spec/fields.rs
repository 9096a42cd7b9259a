//! The fields of an ID type, as they are found in a tree of values.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{Errors, Fields, shown_text};
use super::rules::{self, RandomDraft, SequenceDraft};
use super::{DEFAULT_TENANT, Kind, Ledger, RandomSpec, SERIAL_MAX, SequenceSpec};
use crate::alphabet::Alphabet;
use crate::check::Check;
use crate::ff1;
use crate::filters::FilterSpec;
use crate::sequence::Reset;
use crate::snowflake::SnowflakeSpec;

/// The fields of which an ID type has exactly one.
const KINDS: [&str; 3] = ["sequence", "random", "snowflake"];

const NAME_HINT: &str = "use a name such as invoice";
const ALPHABET_HINT: &str =
    "use digits, hex, crockford32, alnum, or the symbols themselves in order of value";

/// Tenant, name and kind. `None` only where something was reported.
pub(super) fn read_id_type(value: Value, errors: &mut Errors) -> Option<(String, String, Kind)> {
    let known = ["tenant", "name", "sequence", "random", "snowflake"];
    let mut fields = Fields::open("", value, &known, errors)?;
    let tenant = fields.text("tenant", NAME_HINT).unwrap_or_else(|| DEFAULT_TENANT.to_owned());
    rules::check_name("tenant", &tenant, fields.errors());
    fields.require("name", NAME_HINT);
    let name = fields.text("name", NAME_HINT);
    if let Some(name) = &name {
        rules::check_name("name", name, fields.errors());
    }
    let kind = read_kind(&mut fields);
    Some((tenant, name?, kind?))
}

fn read_kind(fields: &mut Fields<'_>) -> Option<Kind> {
    let mut found: Vec<(&str, Value)> =
        KINDS.into_iter().filter_map(|kind| Some((kind, fields.take(kind)?))).collect();
    // Programs write null for what is not there. Alone it is a person's `snowflake:`, and then
    // the answer is what to put behind it.
    if found.len() > 1 {
        found.retain(|(_, value)| !value.is_null());
    }
    if found.len() != 1 {
        let count = if found.is_empty() { "none" } else { "more than one" };
        fields.errors().add(
            "sequence, random or snowflake",
            format!("there must be exactly one of these fields, found {count}"),
        );
    }
    let mut kinds = found.into_iter().map(|(kind, value)| match kind {
        "sequence" => read_sequence(value, fields.errors()).map(Kind::Sequence),
        "random" => read_random(value, fields.errors()).map(Kind::Random),
        _ => read_snowflake(value, fields.errors()).map(Kind::Snowflake),
    });
    let kind = kinds.next().flatten();
    // What is wrong with the others is told as well.
    kinds.for_each(drop);
    kind
}

fn read_sequence(value: Value, errors: &mut Errors) -> Option<SequenceSpec> {
    let known = ["start", "template", "reset", "gapless"];
    let mut fields = Fields::open("sequence", value, &known, errors)?;
    let default = SequenceSpec::default();
    let start_hint = format!("use 0 to {}", SERIAL_MAX - 1);
    let template_hint = "use text with {seq} in it";
    let draft = SequenceDraft {
        start: fields.or("start", default.start, |f, name| f.number(name, &start_hint)),
        template: fields.or("template", default.template, |f, name| f.text(name, template_hint)),
        reset: fields.or("reset", default.reset, |f, name| f.choice(name, &Reset::NAMES)),
        gapless: fields.or("gapless", default.gapless, Fields::flag),
    };
    draft.check(fields.errors());
    draft.finish()
}

fn read_random(value: Value, errors: &mut Errors) -> Option<RandomSpec> {
    let known = ["alphabet", "length", "check", "filters", "group", "allow_dense", "ledger"];
    let mut fields = Fields::open("random", value, &known, errors)?;
    let checks = Check::ALL.map(|check| (check.name(), check));
    let check = fields.or("check", Check::None, |f, name| f.choice(name, &checks));
    let length_min = ff1::LEN_MIN + check.map_or(0, Check::symbols);
    let length_hint = format!("use {length_min} to {}", ff1::LEN_MAX);
    fields.require("alphabet", ALPHABET_HINT);
    fields.require("length", &length_hint);
    let draft = RandomDraft {
        alphabet: read_alphabet(&mut fields),
        length: fields.number("length", &length_hint),
        check,
        filters: fields.or("filters", FilterSpec::None, read_filters),
        group: read_group(&mut fields),
        allow_dense: fields.or("allow_dense", false, Fields::flag),
        ledger: fields.or("ledger", Ledger::Stored, |f, name| f.choice(name, &Ledger::NAMES)),
    };
    draft.check(fields.errors());
    draft.finish()
}

fn read_alphabet(fields: &mut Fields<'_>) -> Option<Alphabet> {
    let text = fields.text("alphabet", ALPHABET_HINT)?;
    Alphabet::new(&text).map_err(|error| fields.report("alphabet", error.to_string())).ok()
}

fn read_filters(fields: &mut Fields<'_>, name: &str) -> Option<FilterSpec> {
    let path = fields.path_of(name);
    let value = fields.take(name)?;
    FilterSpec::read(&path, value, fields.errors())
}

/// No groups can also be written as null.
fn read_group(fields: &mut Fields<'_>) -> Option<u64> {
    if fields.is_null("group") {
        return None;
    }
    fields.number("group", "use 1 or more, and fewer than the length")
}

fn read_snowflake(value: Value, errors: &mut Errors) -> Option<SnowflakeSpec> {
    let mut fields = Fields::open("snowflake", value, &["epoch"], errors)?;
    let default = SnowflakeSpec::default();
    let epoch = fields.or("epoch", default.epoch, |fields, name| {
        let right = "use an instant such as 2024-01-01T00:00:00Z";
        let text = fields.text(name, right)?;
        let epoch = text.parse::<Timestamp>().ok();
        if epoch.is_none() {
            fields.report(name, format!("{} is not an instant; {right}", shown_text(&text)));
        }
        epoch
    });
    Some(SnowflakeSpec { epoch: epoch? })
}
