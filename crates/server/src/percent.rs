//! Percent-encoding.

use std::fmt::Write as _;

/// The text that a part of an address stands for. What is no text becomes replacement characters.
pub(crate) fn unescape(escaped: &str) -> String {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let [first, tail @ ..] = rest {
        let byte = tail.get(..2).filter(|_| *first == b'%').and_then(|two| {
            let digits = std::str::from_utf8(two).ok()?;
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Makes a text safe in a path, a query or any other part of an address.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_comes_back_and_the_rest_stays() {
        for text in ["ABCD-1234", "a b/c%d", "\u{1f37e}", ""] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape("%"), "%");
        assert_eq!(unescape("%4"), "%4");
        assert_eq!(unescape("%zz%+4%41"), "%zz%+4A");
        assert_eq!(unescape("%ff"), "\u{fffd}");
    }
}
