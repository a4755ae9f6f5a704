//! Progress bars on the terminal; silent where the output is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of every bar: it is moved by fractions.
const STEPS: u64 = 1_000;

/// A bar, or one that never shows when `quiet`.
pub fn bar(quiet: bool) -> ProgressBar {
    let place = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("  {msg:34} [{bar:40}] {percent:>3} %  {elapsed_precise}")
        .expect("the template is good")
        .progress_chars("=> ");
    ProgressBar::with_draw_target(Some(STEPS), place).with_style(style)
}

/// Moves `bar` to `fraction` of its length, named `what`.
pub fn show(bar: &ProgressBar, fraction: f64, what: &str) {
    if bar.message() != what {
        bar.set_message(what.to_string());
    }
    bar.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
}
