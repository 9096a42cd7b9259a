//! Reads what stands under `filters:` from a tree of values.

use serde_json::Value;

use super::{Behaviour, FilterSettings, FilterSpec};
use crate::spec::read::{Errors, Fields, shown};

const PROFILES: [(&str, FilterSpec); 3] =
    [("openg2p", FilterSpec::Openg2p), ("mosip", FilterSpec::Mosip), ("none", FilterSpec::None)];

const BEHAVIOURS: [(&str, Behaviour); 2] =
    [("openg2p", Behaviour::Openg2p), ("mosip", Behaviour::Mosip)];

const SETTINGS: [&str; 9] = [
    "sequence_limit",
    "repeating_limit",
    "repeating_block_limit",
    "conjugative_even_digits_limit",
    "digits_group_limit",
    "reverse_digits_group_limit",
    "not_start_with",
    "restricted_numbers",
    "behaviour",
];

impl FilterSpec {
    /// The name of a profile or a mapping of settings. `None` only where something was reported.
    pub(crate) fn read(path: &str, value: Value, errors: &mut Errors) -> Option<Self> {
        if value.is_object() {
            return read_settings(path, value, errors).map(Self::Settings);
        }
        let profile = PROFILES.into_iter().find(|(name, _)| value == *name);
        if profile.is_none() {
            errors.add(
                path,
                format!(
                    "{} is not a filter profile; use openg2p, mosip, none, or a mapping of single \
                     settings",
                    shown(&value)
                ),
            );
        }
        profile.map(|(_, spec)| spec)
    }
}

fn read_settings(path: &str, value: Value, errors: &mut Errors) -> Option<FilterSettings> {
    let errors_before = errors.count();
    let mut fields = Fields::open(path, value, &SETTINGS, errors)?;
    let default = FilterSettings::default();
    let limit = |fields: &mut Fields<'_>, name: &str, default: u32| {
        fields.or(name, default, read_limit).unwrap_or(default)
    };
    let digits =
        |f: &mut Fields<'_>, name: &str| f.texts(name, "use digits in quotes, as in \"0\"");
    let settings = FilterSettings {
        sequence_limit: limit(&mut fields, "sequence_limit", default.sequence_limit),
        repeating_limit: limit(&mut fields, "repeating_limit", default.repeating_limit),
        repeating_block_limit: limit(
            &mut fields,
            "repeating_block_limit",
            default.repeating_block_limit,
        ),
        conjugative_even_digits_limit: limit(
            &mut fields,
            "conjugative_even_digits_limit",
            default.conjugative_even_digits_limit,
        ),
        digits_group_limit: limit(&mut fields, "digits_group_limit", default.digits_group_limit),
        reverse_digits_group_limit: limit(
            &mut fields,
            "reverse_digits_group_limit",
            default.reverse_digits_group_limit,
        ),
        not_start_with: fields
            .or("not_start_with", default.not_start_with, digits)
            .unwrap_or_default(),
        restricted_numbers: fields
            .or("restricted_numbers", default.restricted_numbers, digits)
            .unwrap_or_default(),
        // The dialect that allows more, so that one mistake is not answered with two.
        behaviour: fields
            .or("behaviour", default.behaviour, |f, name| f.choice(name, &BEHAVIOURS))
            .unwrap_or(Behaviour::Mosip),
    };
    if fields.errors().count() == errors_before {
        return Some(settings);
    }
    // Nobody else gets to see these settings, so what more is wrong with them is told here.
    let mut found = Vec::new();
    settings.validate(&mut found);
    for (name, message) in found {
        fields.report(&name, message);
    }
    None
}

fn read_limit(fields: &mut Fields<'_>, name: &str) -> Option<u32> {
    let right = if name == "sequence_limit" { "use 2 to 10" } else { "use 1 to 32" };
    let right = format!("{right}, or 0 to switch the rule off");
    let limit = fields.number(name, &right)?;
    let small = u32::try_from(limit).ok();
    if small.is_none() {
        fields.report(name, format!("{limit} is too large; {right}"));
    }
    small
}
