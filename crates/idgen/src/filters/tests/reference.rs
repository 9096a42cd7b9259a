//! The rules once more, slowly and on text, as the two originals describe them.

use super::{Behaviour, FilterSettings, Filters, Rule, check};

pub(super) const CYCLIC_NUMBERS: [&str; 5] = [
    "142857",
    "0588235294117647",
    "052631578947368421",
    "0434782608695652173913",
    "0344827586206896551724137931",
];

/// Compares `filters` with the reference and says whether the ID was accepted.
///
/// The order of the rules is free, so the rule reported must only be one that is broken.
#[track_caller]
pub(super) fn agrees(filters: &Filters, settings: &FilterSettings, id: &str) -> bool {
    let broken = broken_rules(settings, id);
    match check(filters, id) {
        Ok(()) => assert_eq!(broken, [], "{id} accepted by {settings:?}"),
        Err(rule) => {
            assert!(
                broken.contains(&rule),
                "{id} breaks {broken:?}, not {rule:?}, in {settings:?}"
            );
        }
    }
    broken.is_empty()
}

fn broken_rules(settings: &FilterSettings, id: &str) -> Vec<Rule> {
    let mosip = settings.behaviour == Behaviour::Mosip;
    let starts_badly = settings
        .not_start_with
        .iter()
        .any(|prefix| if mosip { id.starts_with(prefix.as_str()) } else { id[..1] == **prefix });
    let restricted = |number: &String| id.contains(number.as_str());
    [
        (Rule::NotStartWith, starts_badly),
        (Rule::Sequence, sequence(id, settings.sequence_limit, mosip)),
        (Rule::RepeatingDigit, repeating_digit(id, settings.repeating_limit, mosip)),
        (Rule::RepeatingBlock, repeating_block(id, settings.repeating_block_limit)),
        (
            Rule::ConjugativeEvenDigits,
            even_digits(id, settings.conjugative_even_digits_limit, mosip),
        ),
        (Rule::FirstEqualsLast, group(id, settings.digits_group_limit, mosip, false)),
        (
            Rule::FirstEqualsReversedLast,
            group(id, settings.reverse_digits_group_limit, mosip, true),
        ),
        (Rule::RestrictedNumber, settings.restricted_numbers.iter().any(restricted)),
        (Rule::CyclicNumber, CYCLIC_NUMBERS.iter().any(|number| id.contains(number))),
    ]
    .into_iter()
    .filter_map(|(rule, is_broken)| is_broken.then_some(rule))
    .collect()
}

fn size(limit: u32) -> usize {
    usize::try_from(limit).expect("limits are small")
}

/// Every part of the ID that has `len` digits.
fn windows(id: &str, len: usize) -> impl Iterator<Item = &str> {
    (len..=id.len()).map(move |end| &id[end - len..end])
}

fn sequence(id: &str, limit: u32, mosip: bool) -> bool {
    let (up, down) = if mosip {
        ("01234567890123456789", "98765432109876543210")
    } else {
        ("0123456789", "9876543210")
    };
    limit > 0 && windows(id, size(limit)).any(|part| up.contains(part) || down.contains(part))
}

fn repeating_digit(id: &str, limit: u32, mosip: bool) -> bool {
    let distance_max = if mosip { size(limit) } else { size(limit).saturating_sub(1) };
    let digits: Vec<char> = id.chars().collect();
    (0..digits.len())
        .any(|i| (i + 1..digits.len()).any(|j| j - i <= distance_max && digits[i] == digits[j]))
}

fn repeating_block(id: &str, limit: u32) -> bool {
    let len = size(limit);
    len > 0 && (len..=id.len()).any(|end| id[end..].contains(&id[end - len..end]))
}

fn even_digits(id: &str, limit: u32, mosip: bool) -> bool {
    let even = if mosip { "2468" } else { "02468" };
    limit > 0 && windows(id, size(limit)).any(|part| part.chars().all(|c| even.contains(c)))
}

fn group(id: &str, limit: u32, mosip: bool, reversed: bool) -> bool {
    let len = size(limit);
    if len == 0 || (!mosip && id.len() < 2 * len) {
        return false;
    }
    if id.len() < len {
        return true;
    }
    let last = &id[id.len() - len..];
    if reversed { id[..len] == last.chars().rev().collect::<String>() } else { id[..len] == *last }
}
