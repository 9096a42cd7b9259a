//! The text around a sequence number, such as `INV-{yyyy}-{seq:06}`.

use std::fmt;

/// Longest template.
pub const TEMPLATE_CHARS_MAX: usize = 128;

/// Digits of the largest 64-bit number.
pub(crate) const WIDTH_MAX: usize = 20;

/// One piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Literal(String),
    Tenant,
    Type,
    /// The number, padded with zeros to this width; longer numbers are not cut.
    Seq(usize),
    Date(DatePart),
}

/// A part of the date of issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatePart {
    Year,
    YearOfCentury,
    Month,
    Day,
}

impl DatePart {
    pub(crate) fn digits(self) -> usize {
        if self == Self::Year { 4 } else { 2 }
    }
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Something in braces that means nothing.
    #[error(
        "{{{0}}} is not known; use {{tenant}}, {{type}}, {{seq}}, {{seq:06}}, {{yyyy}}, {{yy}}, \
         {{mm}}, {{dd}}, or {{{{ for a brace"
    )]
    Unknown(String),
    /// A brace that is never closed.
    #[error("a brace is opened and not closed; write {{{{ for a literal brace")]
    Open,
    /// A width that is not a number of digits.
    #[error(
        "{{seq:{0}}} has no usable width; write it as {{seq:06}}, from 1 to {WIDTH_MAX} digits"
    )]
    Width(String),
    /// Without exactly one number, two serials would get one ID.
    #[error("the template must contain {{seq}} exactly once, it has it {0} times")]
    SeqCount(usize),
    /// Control characters cannot be printed or typed.
    #[error("{0:?} is a control character and cannot be part of an ID")]
    Control(char),
    /// Longer than any ID should be.
    #[error("the template has {0} characters, the limit is {TEMPLATE_CHARS_MAX}")]
    TooLong(usize),
}

/// Splits a template into its parts.
pub(crate) fn parse(template: &str) -> Result<Vec<Part>, TemplateError> {
    let chars = template.chars().count();
    if chars > TEMPLATE_CHARS_MAX {
        return Err(TemplateError::TooLong(chars));
    }
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("{{") {
            literal.push('{');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("}}") {
            literal.push('}');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (name, after) = after.split_once('}').ok_or(TemplateError::Open)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(placeholder(name)?);
            rest = after;
        } else if next.is_control() {
            return Err(TemplateError::Control(next));
        } else {
            literal.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    match parts.iter().filter(|part| matches!(part, Part::Seq(_))).count() {
        1 => Ok(parts),
        count => Err(TemplateError::SeqCount(count)),
    }
}

fn placeholder(name: &str) -> Result<Part, TemplateError> {
    Ok(match name {
        "tenant" => Part::Tenant,
        "type" => Part::Type,
        "seq" => Part::Seq(1),
        "yyyy" => Part::Date(DatePart::Year),
        "yy" => Part::Date(DatePart::YearOfCentury),
        "mm" => Part::Date(DatePart::Month),
        "dd" => Part::Date(DatePart::Day),
        _ => match name.strip_prefix("seq:") {
            Some(width) => Part::Seq(seq_width(width)?),
            None => return Err(TemplateError::Unknown(name.to_owned())),
        },
    })
}

/// The width is written as in `06`: a zero for the padding, then the digits.
fn seq_width(text: &str) -> Result<usize, TemplateError> {
    text.strip_prefix('0')
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|width| (1..=WIDTH_MAX).contains(width))
        .ok_or_else(|| TemplateError::Width(text.to_owned()))
}

impl fmt::Display for DatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "{yyyy}",
            Self::YearOfCentury => "{yy}",
            Self::Month => "{mm}",
            Self::Day => "{dd}",
        })
    }
}
