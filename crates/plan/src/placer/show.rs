//! Lines of the log as sentences for a terminal.

use super::log::{Line, Reason, Verdict};
use super::verdict::Measured;
use crate::observed::MEMORY;
use base::units::Bytes;
use bench::report::format::{micros, short};
use std::collections::BTreeMap;

/// Says lines; one that says the same of the same service as the last is not said again.
#[derive(Debug, Default)]
pub(super) struct Sentences(BTreeMap<String, String>);

impl Sentences {
    /// The sentence for a line, if it is to be said.
    pub(super) fn sentence(&mut self, line: &Line) -> Option<String> {
        let (now_us, service, text) = match line {
            Line::Setup { .. }
            | Line::Seen { .. }
            | Line::Told { .. }
            | Line::Frozen { .. }
            | Line::Tuned(_) => return None,
            Line::Missed { now_us, why } => (*now_us, "", why.clone()),
            Line::Ignored { now_us, service, why, .. } => {
                (*now_us, service.as_deref().unwrap_or_default(), format!("not gone by: {why}"))
            }
            Line::Note { now_us, service, what } => (*now_us, &**service, what.clone()),
            Line::Decision(decision) => {
                let settings = decision.settings.iter();
                let changes = settings.map(|one| {
                    let [from, to] = [decision.from.value(&one.register), &one.value].map(|value| {
                        let bytes = value.parse().ok().filter(|_| one.register == MEMORY);
                        bytes.map_or_else(|| value.to_owned(), |bytes| Bytes(bytes).to_string())
                    });
                    format!("{} {from} -> {to}", one.register)
                });
                let changes: Vec<String> = changes.collect();
                let kind = match decision.reason {
                    Reason::Better | Reason::Memory => "",
                    Reason::Try | Reason::Size => "to try it, ",
                    Reason::Back => "back, ",
                    Reason::Greedy => "by the guideline, ",
                    Reason::Fixed => "as is wanted, ",
                };
                let would = if decision.is_dry_run { "would set " } else { "" };
                let why = format!("{would}{} ({kind}{})", changes.join(", "), decision.why);
                (decision.now_us, &*decision.service, why)
            }
            Line::Evaluation(came) => {
                let verdict = match came.verdict {
                    Verdict::Kept => "stays",
                    Verdict::Back => "goes back",
                    Verdict::Void => "the load changed meanwhile",
                };
                let figures = match came.misses {
                    Some([before, now]) => {
                        format!("of what is asked now {before:.0} misses/s before; now {now:.0}")
                    }
                    None => format!("before {}; now {}", figures(&came.before), figures(&came.came)),
                };
                let text = format!("{verdict}: {:+.0} %; {figures}", came.gain * 100.0);
                (came.now_us, &*came.service, text)
            }
        };
        if self.0.insert(service.to_owned(), text.clone()).is_some_and(|last| last == text) {
            return None;
        }
        let of = if service.is_empty() { String::new() } else { format!("{service}: ") };
        Some(format!("{:>7.1} s  {of}{text}", now_us as f64 / 1e6))
    }
}

fn figures(of: &Measured) -> String {
    let p99 = of.p99_ns.map_or(String::new(), |p99| format!(", p99 {}", micros(p99 / 1e3)));
    format!("{}/s{p99}, {:.2} cores", short(of.rate), of.cores)
}
