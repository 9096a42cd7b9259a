//! Counting and estimating the IDs of a type.

use idgen::alphabet::Alphabet;
use idgen::capacity::Capacity;
use idgen::check::Check;
use idgen::filters::{FilterSettings, FilterSpec};
use idgen::spec::{RandomSpec, SERIAL_MAX};

fn digits(length: u8, check: Check, filters: FilterSpec) -> RandomSpec {
    RandomSpec {
        alphabet: Alphabet::new("digits").unwrap(),
        length,
        check,
        filters,
        group: None,
        allow_dense: false,
        ledger: idgen::spec::Ledger::Stored,
    }
}

#[test]
fn small_spaces_are_counted() {
    for (filters, valid) in [(FilterSpec::Openg2p, 29_593), (FilterSpec::Mosip, 22_381)] {
        let capacity = Capacity::of(&digits(6, Check::Verhoeff, filters)).unwrap();
        assert_eq!((capacity.space, capacity.valid, capacity.exact), (100_000, valid, true));
        assert_eq!((capacity.valid_low, capacity.valid_high), (valid, valid));
    }
}

#[test]
fn spaces_without_filters_are_exact_whatever_their_size() {
    let capacity = Capacity::of(&digits(32, Check::None, FilterSpec::None)).unwrap();
    assert_eq!((capacity.valid, capacity.exact), (10u128.pow(32), true));
}

/// Work is counted in candidates and numbers looked for, so a long list makes it an estimate.
#[test]
fn long_lists_do_not_take_long() {
    let settings = FilterSettings {
        restricted_numbers: (0..1000).map(|n| format!("{n:09}")).collect(),
        ..FilterSettings::default()
    };
    for length in [10, 32] {
        let spec = digits(length, Check::Luhn, FilterSpec::Settings(settings.clone()));
        assert!(!Capacity::of(&spec).unwrap().exact);
    }
    let spec = digits(7, Check::Luhn, FilterSpec::Openg2p);
    assert!(Capacity::within(&spec, 1_000_000).unwrap().exact);
    assert!(!Capacity::within(&spec, 999_999).unwrap().exact);
}

/// Hardly any ID of 32 digits passes; the sample grows until the interval says something.
#[test]
fn rare_ids_are_looked_for_longer() {
    let spec = digits(28, Check::Luhn, FilterSpec::Openg2p);
    let capacity = Capacity::of(&spec).unwrap();
    assert!(capacity.valid_low > capacity.valid / 10 * 9, "{capacity:?}");
    let hasty = Capacity::within(&spec, 100_000).unwrap();
    assert!(hasty.valid_high - hasty.valid_low > capacity.valid_high - capacity.valid_low);
    let truth = capacity.valid;
    assert!((hasty.valid_low..=hasty.valid_high).contains(&truth), "{hasty:?} {capacity:?}");
}

#[test]
fn serials_limit_what_can_be_issued() {
    let issuable = |spec: &RandomSpec| Capacity::of(spec).unwrap().issuable();
    assert_eq!(issuable(&digits(6, Check::Verhoeff, FilterSpec::Openg2p)), 29_593);
    assert_eq!(issuable(&digits(18, Check::None, FilterSpec::None)), 10u128.pow(18));
    let serials = u128::from(SERIAL_MAX);
    assert_eq!(issuable(&digits(19, Check::None, FilterSpec::None)), serials);
    assert_eq!(issuable(&digits(32, Check::None, FilterSpec::None)), serials);
    // The filters thin out the serials as they do the space.
    let filtered = Capacity::of(&digits(20, Check::None, FilterSpec::Openg2p)).unwrap();
    let (low, high) = (filtered.issuable_low(), filtered.issuable_high());
    assert!(low > 0 && low < filtered.issuable() && filtered.issuable() < high);
    assert!(high < serials / 10, "{filtered:?}");
}

/// The only rule is on the first digit, so the true share is known to be 8 in 10. One interval in
/// twenty may miss it; nine out of ten tries hold.
#[test]
fn large_spaces_are_estimated_within_their_interval() {
    let only_first = FilterSettings {
        sequence_limit: 0,
        repeating_limit: 0,
        repeating_block_limit: 0,
        conjugative_even_digits_limit: 0,
        digits_group_limit: 0,
        reverse_digits_group_limit: 0,
        ..FilterSettings::default()
    };
    let mut held = 0;
    for length in 10..20 {
        let spec = digits(length, Check::Luhn, FilterSpec::Settings(only_first.clone()));
        let capacity = Capacity::of(&spec).unwrap();
        let truth = capacity.space / 10 * 8;
        assert!(!capacity.exact);
        assert!(capacity.valid_high - capacity.valid_low < truth / 400, "{capacity:?}");
        held += u32::from((capacity.valid_low..=capacity.valid_high).contains(&truth));
    }
    assert!(held >= 9, "{held} of 10 intervals held the truth");
}

#[test]
fn guesses_hit_in_proportion() {
    let capacity = Capacity::of(&digits(8, Check::None, FilterSpec::None)).unwrap();
    assert!((capacity.guess_probability(10_000) - 1e-4).abs() < 1e-12);
    assert!((capacity.guess_probability(u128::MAX) - 1.0).abs() < 1e-12);
}

#[test]
fn invalid_types_have_no_capacity() {
    assert!(Capacity::of(&digits(0, Check::None, FilterSpec::None)).is_err());
}
