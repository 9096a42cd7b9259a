//! What is said about a command line that cannot be understood.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::failure::Failure;

/// Help and versions are printed as they are; anything else becomes one sentence.
pub(super) fn answer(error: &clap::Error) -> Result<ExitCode, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print()?;
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Goes to standard error; that nobody can read it changes nothing.
            let _ = error.print();
            Ok(ExitCode::from(2))
        }
        _ => Err(Failure::Usage(sentence(&error.render().to_string()))),
    }
}

/// Takes the message out of the paragraphs around it.
fn sentence(text: &str) -> String {
    let mut sentence = String::new();
    let is_message = |line: &&str| {
        !["Usage:", "For more information"].iter().any(|start| line.starts_with(start))
    };
    for line in text.lines().map(str::trim).take_while(is_message).filter(|line| !line.is_empty()) {
        let values = line.strip_prefix("[possible values: ").and_then(|l| l.strip_suffix(']'));
        if let Some(values) = values {
            sentence.push_str("; use one of ");
            sentence.push_str(values);
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            sentence.push_str("; ");
            sentence.push_str(tip);
        } else {
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn paragraphs_become_a_sentence() {
        let cases = [
            (
                "error: the following required arguments were not provided:\n  --count <COUNT>\n\n\
                 Usage: mintage generate --count <COUNT>\n\nFor more information, try '--help'.\n",
                "the following required arguments were not provided: --count <COUNT>",
            ),
            (
                "error: invalid value 'x' for '--format <FORMAT>'\n  [possible values: csv, txt]\n\n  \
                 tip: a similar value exists: 'txt'\n\nFor more information, try '--help'.\n",
                "invalid value 'x' for '--format <FORMAT>'; use one of csv, txt; \
                 a similar value exists: 'txt'",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(sentence(text), expected);
        }
    }
}
