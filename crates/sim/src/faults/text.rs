//! Faults and plans as text, and back: what a failed run prints, and a person types. The form is in the head of `faults.rs`.

use super::{Fault, Plan, Trouble, What};
use crate::network::Links;
use crate::nodes::NodeSet;
use base::Picos;
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.from, if self.both_ways { "<>" } else { ">" }, self.to)
    }
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Links, String> {
        let (both_ways, parts) = match text.split_once("<>") {
            Some(parts) => (true, Some(parts)),
            None => (false, text.split_once('>')),
        };
        let (from, to) = parts.ok_or_else(|| format!("{text:?} names no links, as 0-2>3 or 1<>* do"))?;
        Ok(Links { from: from.parse()?, to: to.parse()?, both_ways })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.what {
            What::Crash(_) => "crash",
            What::Cut(_) => "cut",
            What::Clog(_) => "clog",
            What::Weather(..) => "weather",
            What::Stranger(_) => "stranger",
            What::Power(_) => "power",
            What::Trouble(_, trouble) => trouble.name(),
        };
        write!(f, "{name}@{}+", self.at.0)?;
        if self.lasts == Picos::MAX { f.write_str("∞:") } else { write!(f, "{}:", self.lasts.0) }?;
        match self.what {
            What::Crash(node) | What::Trouble(node, _) => write!(f, "{node}"),
            What::Power(nodes) => write!(f, "{nodes}"),
            What::Cut(links) | What::Clog(links) | What::Stranger(links) => write!(f, "{links}"),
            What::Weather(links, weather) => write!(f, "{links}:{weather}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let parts = text.split_once('@').and_then(|(name, rest)| {
            let (times, what) = rest.split_once(':')?;
            let (at, lasts) = times.split_once('+')?;
            Some((name, at, lasts, what))
        });
        let (name, at, lasts, what) = parts.ok_or_else(|| format!("{text:?} is not fault@at+lasts:what"))?;
        let time = |text: &str| text.parse().map(Picos).map_err(|_| format!("{text:?} is no time"));
        let node = || {
            let node = what.parse().ok().filter(|&n| n < NodeSet::MOST);
            node.ok_or_else(|| format!("{what:?} is no node"))
        };
        let trouble = Trouble::ALL.into_iter().find(|trouble| trouble.name() == name);
        let what = match name {
            "crash" => What::Crash(node()?),
            "power" => What::Power(what.parse()?),
            "cut" => What::Cut(what.parse()?),
            "clog" => What::Clog(what.parse()?),
            "stranger" => What::Stranger(what.parse()?),
            "weather" => {
                let (links, weather) =
                    what.split_once(':').ok_or_else(|| format!("{what:?} is not links:weather"))?;
                What::Weather(links.parse()?, weather.parse()?)
            }
            _ => match trouble {
                Some(trouble) => What::Trouble(node()?, trouble),
                None => {
                    let troubles = Trouble::ALL.map(Trouble::name).join(", ");
                    return Err(format!(
                        "{name:?} is no fault; there are crash, power, cut, clog, weather, stranger, {troubles}"
                    ));
                }
            },
        };
        Ok(Fault { at: time(at)?, lasts: if lasts == "∞" { Picos::MAX } else { time(lasts)? }, what })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Plan)
    }
}
