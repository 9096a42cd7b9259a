//! Boundary examples for each rule, the exhaustive counts, and a comparison with a slow
//! reference that works on text.

use super::*;

mod reference;
mod serde_forms;
mod support;

use support::{Xorshift, digits_of, verhoeff_check_digit};

fn openg2p() -> Filters {
    Filters::new(&FilterSpec::Openg2p)
}

fn mosip() -> Filters {
    Filters::new(&FilterSpec::Mosip)
}

/// Settings with every rule off but the one for cyclic numbers, which has no switch.
fn nothing(behaviour: Behaviour) -> FilterSettings {
    FilterSettings {
        sequence_limit: 0,
        repeating_limit: 0,
        repeating_block_limit: 0,
        conjugative_even_digits_limit: 0,
        digits_group_limit: 0,
        reverse_digits_group_limit: 0,
        not_start_with: Vec::new(),
        restricted_numbers: Vec::new(),
        behaviour,
    }
}

/// Filters with one setting changed from [`nothing`], in each dialect.
fn both(change: impl Fn(&mut FilterSettings)) -> [Filters; 2] {
    [Behaviour::Openg2p, Behaviour::Mosip].map(|behaviour| {
        let mut settings = nothing(behaviour);
        change(&mut settings);
        Filters::new(&FilterSpec::Settings(settings))
    })
}

fn check(filters: &Filters, id: &str) -> Result<(), Rule> {
    filters.check(&digits_of(id))
}

#[track_caller]
fn assert_accepts(filters: &Filters, ids: &[&str]) {
    for id in ids {
        assert_eq!(check(filters, id), Ok(()), "{id}");
    }
}

#[track_caller]
fn assert_rejects(filters: &Filters, rule: Rule, ids: &[&str]) {
    for id in ids {
        assert_eq!(check(filters, id), Err(rule), "{id}");
    }
}

#[test]
fn six_digit_ids_with_check_digit_are_accepted_in_the_known_numbers() {
    let (openg2p, mosip) = (openg2p(), mosip());
    let mut counts = [0; 3];
    for payload in 0..100_000 {
        let mut id = digits_of(&format!("{payload:05}"));
        id.push(verhoeff_check_digit(&id));
        let (o, m) = (openg2p.accepts(&id), mosip.accepts(&id));
        counts[0] += u32::from(o);
        counts[1] += u32::from(m);
        counts[2] += u32::from(o && m);
    }
    assert_eq!(counts, [29_593, 22_381, 18_953]);
}

#[test]
fn no_filters_accept_everything() {
    for filters in [Filters::none(), Filters::default(), Filters::new(&FilterSpec::None)] {
        assert!(filters.is_none());
        assert_accepts(&filters, &["0", "111111", "142857"]);
    }
    assert!(!openg2p().is_none());
}

#[test]
fn length_must_be_within_1_and_32() {
    for filters in both(|_| ()) {
        assert_rejects(&filters, Rule::Length, &["", &"7".repeat(33)]);
        assert_accepts(&filters, &["7", &"7".repeat(16), &"7".repeat(17)]);
        assert_accepts(&filters, &[&"7".repeat(32)]);
    }
}

#[test]
fn first_digit_may_not_be_a_listed_one() {
    for filters in both(|s| s.not_start_with = vec!["0".into(), "1".into()]) {
        assert_rejects(&filters, Rule::NotStartWith, &["0", "1", "05", "19"]);
        assert_accepts(&filters, &["2", "9", "20", "91"]);
    }
}

#[test]
fn only_mosip_compares_longer_prefixes() {
    let [openg2p, mosip] = both(|s| s.not_start_with = vec!["27".into()]);
    assert_accepts(&openg2p, &["2", "27", "275"]);
    assert_rejects(&mosip, Rule::NotStartWith, &["27", "275"]);
    assert_rejects(&mosip, Rule::NotStartWith, &["27000000000000000"]);
    assert_accepts(&mosip, &["2", "72", "5275"]);
}

#[test]
fn sequences_up_and_down_end_at_the_limit() {
    for filters in both(|s| s.sequence_limit = 3) {
        assert_rejects(&filters, Rule::Sequence, &["123", "321", "012", "210"]);
        assert_rejects(&filters, Rule::Sequence, &["50789", "59870", "5789"]);
        assert_accepts(&filters, &["12", "1", "124", "1213", "135", "777"]);
    }
    for filters in both(|s| s.sequence_limit = 4) {
        assert_rejects(&filters, Rule::Sequence, &["1234", "94321"]);
        assert_accepts(&filters, &["123", "32123"]);
    }
}

#[test]
fn only_mosip_sequences_wrap_between_9_and_0() {
    let [openg2p, mosip] = both(|s| s.sequence_limit = 3);
    let wrapping = ["890", "901", "098", "109"];
    assert_accepts(&openg2p, &wrapping);
    assert_rejects(&mosip, Rule::Sequence, &wrapping);
    assert_accepts(&mosip, &["909", "090", "900"]);
}

#[test]
fn a_repeated_digit_is_counted_differently() {
    let [openg2p, mosip] = both(|s| s.repeating_limit = 2);
    assert_rejects(&openg2p, Rule::RepeatingDigit, &["11", "5344"]);
    assert_accepts(&openg2p, &["1", "121", "5343"]);
    assert_rejects(&mosip, Rule::RepeatingDigit, &["11", "121", "5343"]);
    assert_accepts(&mosip, &["1", "1231", "53453"]);

    let [openg2p, mosip] = both(|s| s.repeating_limit = 1);
    assert_accepts(&openg2p, &["11"]);
    assert_rejects(&mosip, Rule::RepeatingDigit, &["11"]);
    assert_accepts(&mosip, &["121"]);
}

#[test]
fn a_block_may_not_occur_again_after_its_end() {
    for filters in both(|s| s.repeating_block_limit = 2) {
        assert_rejects(&filters, Rule::RepeatingBlock, &["4848", "48948", "1111"]);
        assert_rejects(&filters, Rule::RepeatingBlock, &["48000000000000048"]);
        assert_accepts(&filters, &["48", "4884", "484", "111", "4049"]);
    }
    for filters in both(|s| s.repeating_block_limit = 1) {
        assert_rejects(&filters, Rule::RepeatingBlock, &["11", "123451"]);
        assert_accepts(&filters, &["1", "1234567890"]);
    }
    for filters in both(|s| s.repeating_block_limit = 3) {
        assert_rejects(&filters, Rule::RepeatingBlock, &["482482", "17482948210", "1111111"]);
        assert_accepts(&filters, &["48248", "4848"]);
    }
}

#[test]
fn zero_is_even_for_openg2p_only() {
    let [openg2p, mosip] = both(|s| s.conjugative_even_digits_limit = 3);
    for filters in [&openg2p, &mosip] {
        assert_rejects(filters, Rule::ConjugativeEvenDigits, &["482", "12223"]);
        assert_accepts(filters, &["48", "48148", "13579", "22722"]);
    }
    assert_rejects(&openg2p, Rule::ConjugativeEvenDigits, &["402", "000", "480"]);
    assert_accepts(&mosip, &["402", "000", "480"]);
}

#[test]
fn groups_are_compared_from_twice_their_length_or_always() {
    let [openg2p, mosip] = both(|s| s.digits_group_limit = 5);
    for filters in [&openg2p, &mosip] {
        let ids = ["4345643456", "43456743456", "43456000000000000043456"];
        assert_rejects(filters, Rule::FirstEqualsLast, &ids);
        assert_accepts(filters, &["4345643457", "5345643456", "4345665434"]);
    }
    // Nine digits whose first and last five share the middle one.
    assert_accepts(&openg2p, &["567856785", "77777"]);
    assert_rejects(&mosip, Rule::FirstEqualsLast, &["567856785"]);
    // MOSIP never issues an ID that is not longer than the group.
    assert_rejects(&mosip, Rule::FirstEqualsLast, &["43456", "4345"]);
    assert_eq!((openg2p.length_min(), mosip.length_min()), (1, 6));
    assert_eq!(Filters::none().length_min(), 1);
}

#[test]
fn reversed_groups_are_compared_from_twice_their_length_or_always() {
    let [openg2p, mosip] = both(|s| s.reverse_digits_group_limit = 5);
    for filters in [&openg2p, &mosip] {
        let ids = ["4345665434", "43456765434", "43456000000000000065434"];
        assert_rejects(filters, Rule::FirstEqualsReversedLast, &ids);
        assert_accepts(filters, &["4345665435", "5345665434", "4345643456"]);
    }
    assert_accepts(&openg2p, &["434565434", "43434"]);
    assert_rejects(&mosip, Rule::FirstEqualsReversedLast, &["434565434", "43434"]);
    assert_rejects(&mosip, Rule::FirstEqualsReversedLast, &["4345"]);
    assert_accepts(&mosip, &["43456"]);
    assert_eq!((openg2p.length_min(), mosip.length_min()), (1, 5));

    let [openg2p, mosip] = both(|s| s.reverse_digits_group_limit = 1);
    assert_accepts(&openg2p, &["7", "78"]);
    assert_rejects(&mosip, Rule::FirstEqualsReversedLast, &["7", "77", "787"]);
    assert_accepts(&mosip, &["78"]);
    assert_eq!((openg2p.length_min(), mosip.length_min()), (1, 2));
}

#[test]
fn settings_that_were_not_validated_do_no_harm() {
    let settings = FilterSettings {
        sequence_limit: u32::MAX,
        repeating_limit: u32::MAX,
        repeating_block_limit: u32::MAX,
        conjugative_even_digits_limit: u32::MAX,
        digits_group_limit: u32::MAX,
        reverse_digits_group_limit: u32::MAX,
        not_start_with: ["", "x", "12", "٣"].map(Into::into).into(),
        restricted_numbers: ["", "x", "٣"].map(Into::into).into(),
        behaviour: Behaviour::Openg2p,
    };
    let filters = Filters::new(&FilterSpec::Settings(settings.clone()));
    assert_accepts(&filters, &["1", "2468", "1234567890"]);
    assert_rejects(&filters, Rule::RepeatingDigit, &["12345678901"]);
    let filters = Filters::new(&FilterSpec::Settings(FilterSettings {
        behaviour: Behaviour::Mosip,
        ..settings
    }));
    assert_rejects(&filters, Rule::FirstEqualsLast, &["2468"]);
    assert_eq!(filters.length_min(), 34);
}

#[test]
fn restricted_numbers_may_not_occur_anywhere() {
    let numbers = ["786", "0451", "12345678901234567"];
    for filters in both(|s| s.restricted_numbers = numbers.map(Into::into).into()) {
        assert_rejects(&filters, Rule::RestrictedNumber, &["786", "17865", "99786"]);
        assert_rejects(&filters, Rule::RestrictedNumber, &["30451", "04510"]);
        assert_rejects(&filters, Rule::RestrictedNumber, &["99123456789012345678"]);
        assert_accepts(&filters, &["78", "876", "451", "7086", "1234567890123456"]);
    }
}

#[test]
fn cyclic_numbers_may_not_occur_anywhere() {
    let cyclic = [
        "142857",
        "0588235294117647",
        "052631578947368421",
        "0434782608695652173913",
        "0344827586206896551724137931",
    ];
    for filters in both(|_| ()) {
        for number in cyclic {
            let (before, after) = (format!("39{number}"), format!("{number}39"));
            assert_rejects(&filters, Rule::CyclicNumber, &[number, &before, &after]);
            assert_accepts(&filters, &[&number[1..], &number[..number.len() - 1]]);
        }
        // A cyclic number is a fixed text: its rotations are allowed.
        assert_accepts(&filters, &["428571", "285714"]);
    }
}

#[test]
fn rules_have_distinct_codes_and_sentences() {
    let mut codes = Rule::ALL.map(Rule::code).to_vec();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Rule::ALL.len());
    for rule in Rule::ALL {
        assert!(rule.code().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        assert!(rule.to_string().contains(' '));
    }
    assert_eq!(Rule::Sequence.code(), "sequence");
}

#[test]
fn agrees_with_the_reference_on_the_profiles() {
    let mut random = Xorshift::new(1);
    for settings in [FilterSettings::default(), FilterSettings::mosip()] {
        let filters = Filters::new(&FilterSpec::Settings(settings.clone()));
        let mut accepted = 0;
        for _ in 0..30_000 {
            let len = 6 + random.below(7);
            for id in [random.id(), random.uniform(len)] {
                accepted += u32::from(reference::agrees(&filters, &settings, &id));
            }
        }
        assert!(accepted > 1_000, "only {accepted} accepted IDs were compared");
    }
}

#[test]
fn agrees_with_the_reference_on_random_settings() {
    let mut random = Xorshift::new(2);
    let (mut accepted, mut seen) = (0, std::collections::HashSet::new());
    for _ in 0..6_000 {
        let settings = random.settings();
        let mut errors = Vec::new();
        settings.validate(&mut errors);
        assert_eq!(errors, [], "{settings:?}");
        let filters = Filters::new(&FilterSpec::Settings(settings.clone()));
        for _ in 0..20 {
            let id = random.id();
            accepted += u32::from(reference::agrees(&filters, &settings, &id));
            seen.extend(check(&filters, &id).err());
        }
    }
    assert!(accepted > 1_000, "only {accepted} accepted IDs were compared");
    // Every rule but the length, which the reference does not have.
    assert_eq!(seen.len(), Rule::ALL.len() - 1, "{seen:?}");
}
