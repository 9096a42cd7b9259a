//! The progress bar of a long run.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A bar that draws nothing where it is not wanted or standard error is not a terminal.
pub(crate) fn bar(count: u64, wanted: bool) -> ProgressBar {
    if !wanted {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    let style = "{bar:40} {percent:>3}% {human_pos}/{human_len} codes, {rate}, {eta} left";
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&readable_rate(state.per_sec()));
    };
    let style = ProgressStyle::with_template(style).expect("a valid template");
    bar.set_style(style.with_key("rate", rate));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn readable_rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 999_950.0 => format!("{:.1} M/s", rate / 1e6),
        rate if rate >= 999.5 => format!("{:.1} k/s", rate / 1e3),
        rate => format!("{rate:.0} /s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_can_be_read() {
        let rates = [0.2, 999.0, 999.6, 12_340.0, 999_960.0, 10_600_386.872_2];
        let expected = ["0 /s", "999 /s", "1.0 k/s", "12.3 k/s", "1.0 M/s", "10.6 M/s"];
        assert_eq!(rates.map(readable_rate), expected.map(str::to_owned));
    }
}
