//! Sequence types: what a template writes is read back, and what could repeat is refused.

use idgen::format::{Format, Parsed};
use idgen::key::TypeKey;
use idgen::sequence::{Reset, SequenceFormat, ShownDate};
use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::civil::{Date, date};
use proptest::prelude::*;

fn id_type(template: &str, reset: Reset) -> Result<IdType, String> {
    let spec = SequenceSpec { template: template.to_owned(), reset, ..SequenceSpec::default() };
    IdType::new("PROJ", "9012", Kind::Sequence(spec)).map_err(|e| e.to_string())
}

fn format(template: &str) -> SequenceFormat {
    let id_type = id_type(template, Reset::Never).unwrap();
    match Format::new(&id_type, &TypeKey::new([0; 32])) {
        Format::Sequence(format) => format,
        _ => unreachable!("a sequence type was asked for"),
    }
}

const DAY: Date = date(2026, 3, 7);

#[test]
fn every_placeholder_renders() {
    let cases = [
        ("{tenant}-{type}-{seq}", "PROJ-9012-1001"),
        ("INV-{yyyy}-{seq:06}", "INV-2026-001001"),
        ("{yy}{mm}{dd}/{seq:02}", "260307/1001"),
        ("{{{seq}}}", "{1001}"),
        ("№ {seq:020}", "№ 00000000000000001001"),
        ("{seq}{yyyy}", "10012026"),
    ];
    for (template, expected) in cases {
        let format = format(template);
        assert_eq!(format.on(DAY).unwrap().render(1001).unwrap(), expected);
        let (serial, _) = format.parse(expected).unwrap();
        assert_eq!(serial, 1001, "{template}");
    }
}

#[test]
fn typed_text_is_normalised() {
    let format = format("{tenant}-{type}-{yyyy}-{seq:04}");
    let shown = ShownDate { year: Some(2026), ..ShownDate::default() };
    for text in ["PROJ-9012-2026-0042", "proj 9012 2026 0042", " Proj90122026‑0042\u{feff}\n"] {
        assert_eq!(format.parse(text), Ok((42, shown)), "{text:?}");
    }
}

#[test]
fn failures_say_why() {
    let format = format("INV-{yyyy}-{mm}-{seq:04}");
    let cases = [
        ("INV-2026-03-042", "length"),
        ("", "length"),
        ("INW-2026-03-0042", "symbol"),
        ("INV-2026-0x-0042", "symbol"),
        ("INV-2026-03-004x", "symbol"),
        ("INV-2026-03-٠٠٤٢", "symbol"),
        ("INV-2026-03-00042", "symbol"),
        ("INV-2026-13-0042", "out_of_range"),
        ("INV-0000-03-0042", "out_of_range"),
        ("INV-2026-03-0000", "out_of_range"),
        ("INV-2026-03-9223372036854775807", "out_of_range"),
        ("INV-2026-03-99999999999999999999999", "out_of_range"),
    ];
    for (text, code) in cases {
        assert_eq!(format.parse(text).unwrap_err().code(), code, "{text}");
    }
}

#[test]
fn templates_that_could_repeat_an_id_are_refused() {
    let cases = [
        ("INV-{yyyy}", Reset::Never, "exactly once"),
        ("{seq}{seq}", Reset::Never, "exactly once"),
        ("INV-{seq}", Reset::Yearly, "{yyyy} or {yy}"),
        ("INV-{mm}-{seq}", Reset::Yearly, "{yyyy} or {yy}"),
        ("INV-{yyyy}-{seq}", Reset::Monthly, "and {mm}"),
        ("INV-{yyyy}-{mm}-{seq}", Reset::Daily, "{mm} and {dd}"),
        ("INV-{yyyy}-{dd}-{seq}", Reset::Daily, "{mm} and {dd}"),
    ];
    for (template, reset, hint) in cases {
        let error = id_type(template, reset).unwrap_err();
        assert!(error.contains("sequence.template") && error.contains(hint), "{error}");
    }
    for (template, reset) in [
        ("{yy}-{seq}", Reset::Yearly),
        ("{yyyy}{mm}-{seq}", Reset::Monthly),
        ("{dd}.{mm}.{yy} {seq}", Reset::Daily),
    ] {
        id_type(template, reset).unwrap();
    }
}

#[test]
fn malformed_templates_are_refused() {
    for (template, hint) in [
        ("{seq", "not closed"),
        ("{serial}", "not known"),
        ("{seq:6}", "{seq:06}"),
        ("{seq:021}", "1 to 20"),
        ("{seq:0}", "{seq:06}"),
        ("{seq:0+6}", "{seq:06}"),
        ("{seq}\u{7}", "control"),
    ] {
        let error = id_type(template, Reset::Never).unwrap_err();
        assert!(error.contains(hint), "{template}: {error}");
    }
    assert!(id_type(&"x".repeat(200), Reset::Never).unwrap_err().contains("128"));
}

/// Two-digit years stand for one century, so that a reset never repeats an ID.
#[test]
fn years_that_cannot_be_told_apart_are_not_rendered() {
    let two_digits = format("{yy}-{seq}");
    assert!(two_digits.on(date(2099, 12, 31)).is_ok());
    assert!(two_digits.on(date(2100, 1, 1)).is_err());
    assert!(two_digits.on(date(1999, 1, 1)).is_err());
    assert_eq!(two_digits.parse("26-7").unwrap().1.year, Some(2026));
    assert!(format("{yyyy}-{seq}").on(date(0, 1, 1)).is_err());
    assert!(format("{seq}").on(date(0, 1, 1)).is_ok());
}

#[test]
fn contradicting_dates_are_out_of_range() {
    let format = format("{yyyy}{yy}{mm}{dd}-{seq}");
    assert!(format.parse("2026260228-1").is_ok());
    assert_eq!(format.parse("2026250228-1").unwrap_err().code(), "out_of_range");
    assert_eq!(format.parse("2026260229-1").unwrap_err().code(), "out_of_range");
}

#[test]
fn serials_outside_the_space_have_no_id() {
    let on = format("{seq}").on(DAY).unwrap();
    assert!(on.render(0).is_err());
    assert!(on.render(1).is_ok());
    assert!(on.render(SERIAL_MAX - 1).is_ok());
    assert!(on.render(SERIAL_MAX).is_err());
    let mut seen = Vec::new();
    on.for_each(0..4, |serial, text| {
        seen.push((serial, String::from_utf8(text.to_vec()).unwrap()));
    });
    assert_eq!(seen, [1, 2, 3].map(|n| (n, n.to_string())));
}

#[test]
fn periods_name_their_counter() {
    assert_eq!(Reset::Never.period(DAY), "");
    assert_eq!(Reset::Yearly.period(DAY), "2026");
    assert_eq!(Reset::Monthly.period(DAY), "2026-03");
    assert_eq!(Reset::Daily.period(DAY), "2026-03-07");
}

#[test]
fn an_id_tells_its_counter_if_it_shows_enough_of_the_date() {
    let all = ShownDate { year: Some(2026), month: Some(3), day: Some(7) };
    for reset in [Reset::Never, Reset::Yearly, Reset::Monthly, Reset::Daily] {
        assert_eq!(reset.period_shown(all), Some(reset.period(DAY)));
    }
    let year = ShownDate { year: Some(2026), ..ShownDate::default() };
    assert_eq!(Reset::Yearly.period_shown(year).as_deref(), Some("2026"));
    assert_eq!(Reset::Monthly.period_shown(year), None);
    assert_eq!(Reset::Daily.period_shown(ShownDate { day: None, ..all }), None);
    assert_eq!(Reset::Yearly.period_shown(ShownDate::default()), None);
}

#[test]
fn the_umbrella_renders_and_parses() {
    let id_type = id_type("{tenant}-{seq}", Reset::Never).unwrap();
    let format = Format::new(&id_type, &TypeKey::new([0; 32]));
    assert_eq!(format.render(12, DAY).unwrap(), "PROJ-12");
    assert_eq!(format.parse("PROJ-12"), Ok(Parsed::Sequence(12, ShownDate::default())));
}

#[test]
fn ranges_are_rendered_as_single_ids_are() {
    let format = format("{yy}/{seq:03}.");
    assert!(format.shows_date());
    assert!(!self::format("{tenant}{seq}").shows_date());
    let on = format.on(DAY).unwrap();
    let mut buffer = b"before\n".to_vec();
    assert_eq!(on.render_range(0..3, &mut buffer), 2);
    assert_eq!(on.render_range(999..1001, &mut buffer), 2);
    assert_eq!(on.render_range(5..5, &mut buffer), 0);
    assert_eq!(on.render_range(SERIAL_MAX - 1..u64::MAX, &mut buffer), 1);
    assert_eq!(
        String::from_utf8(buffer).unwrap(),
        "before\n26/001.\n26/002.\n26/999.\n26/1000.\n26/9223372036854775806.\n"
    );
    let mut buffer = Vec::new();
    let format = Format::Sequence(format);
    assert_eq!(format.render_range(7..9, DAY, &mut buffer), Ok(2));
    assert_eq!(buffer, b"26/007.\n26/008.\n");
    assert!(format.render_range(7..9, date(2100, 1, 1), &mut buffer).is_err());
}

/// Literal text and placeholders around one number.
fn any_template() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[-A-Za-z0-9 _/.№ßİ٣\u{2013}\u{200b}]{1,6}",
        prop::sample::select(vec!["{{", "}}"]).prop_map(str::to_owned),
        prop::sample::select(vec!["{tenant}", "{type}", "{yyyy}", "{yy}", "{mm}", "{dd}"])
            .prop_map(str::to_owned),
    ];
    let parts = || prop::collection::vec(part.clone(), 0..5).prop_map(|parts| parts.concat());
    let width = (0..=20usize).prop_map(|width| match width {
        0 => "{seq}".to_owned(),
        width => format!("{{seq:0{width}}}"),
    });
    (parts(), width, parts()).prop_map(|(before, seq, after)| before + &seq + &after)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is rendered, one at a time or in bulk, is read back as the serial and the date that it
    /// was rendered from, also after somebody has typed it.
    #[test]
    fn rendering_and_parsing_are_inverse(
        template in any_template(),
        (year, month, day) in (2000..=2099i16, 1..=12i8, 1..=28i8),
        digits in 1..=19u32,
        number in any::<u64>(),
    ) {
        let serial = (number % 10u64.pow(digits)).clamp(1, SERIAL_MAX - 1);
        let format = format(&template);
        let on = format.on(date(year, month, day)).unwrap();
        let id = on.render(serial).unwrap();
        let (parsed, shown) = format.parse(&id).unwrap();
        prop_assert_eq!(parsed, serial);
        prop_assert!(shown.year.is_none_or(|shown| shown == year));
        prop_assert!(shown.month.is_none_or(|shown| shown == month));
        prop_assert!(shown.day.is_none_or(|shown| shown == day));
        prop_assert_eq!(shown != ShownDate::default(), format.shows_date());
        let typed = format!(" {}\t", id.replace(['-', ' '], "").to_ascii_lowercase());
        prop_assert_eq!(format.parse(&typed), Ok((serial, shown)));

        let mut bulk = Vec::new();
        prop_assert_eq!(on.render_range(serial..serial + 1, &mut bulk), 1);
        prop_assert_eq!(String::from_utf8(bulk).unwrap(), id.clone() + "\n");
        on.for_each(serial..serial + 1, |_, text| assert_eq!(text, id.as_bytes()));
    }
}
