//! Words for messages: lists of choices, and what somebody may have meant.

/// How alike two names must be before one is suggested for the other, from 0 to 1.
const LIKENESS_MIN: f64 = 0.8;

/// `a, b or c`.
pub(crate) fn choices(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} {conjunction} {last}", rest.join(", ")),
    }
}

/// `; did you mean x?`, or nothing if no name is close.
pub(crate) fn did_you_mean(written: &str, names: &[&str]) -> String {
    let written = written.to_lowercase();
    names
        .iter()
        .map(|name| (strsim::jaro_winkler(&written, name), *name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_names_are_suggested() {
        let names = ["listen", "connections_max", "directory"];
        assert_eq!(did_you_mean("lisen", &names), "; did you mean listen?");
        assert_eq!(did_you_mean("Max_Connections", &names), "; did you mean connections_max?");
        assert_eq!(did_you_mean("colour", &names), "");
    }

    #[test]
    fn choices_read_like_a_sentence() {
        assert_eq!(choices(&["a"], "or"), "a");
        assert_eq!(choices(&["a", "b", "c"], "or"), "a, b or c");
    }
}
