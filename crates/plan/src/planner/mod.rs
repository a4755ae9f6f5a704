//! `millrace plan`: who should serve a workload on a machine.
//!
//! The planner itself is `model::plan`; here are its arguments (`ask`), workloads from what `millrace bench` measured (`trace`), and what people see:
//! tables (`text`), the ways through the machine (`picture`), a page (`page`).

mod ask;
mod page;
mod picture;
mod text;
mod trace;

use crate::model::platform;
use bench::report::Table;
use clap::Args;
use model::plan::{Limits, Objective, Question, families};
use model::workload::{Workload, shipped};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

/// Find out who should serve a workload on a machine: host, SmartNIC, accelerator, a box in the network, or several of them.
///
/// Alternatives and their mixtures are weighed by a linear programme over the machine's resources, the best few are simulated, and the ranking says
/// throughput, latency, host cores, watts, what is full, and what ten per cent more of that would buy. The answer may be: do not offload.
#[derive(Args, Debug)]
pub struct Plan {
    /// The workload: a shipped one by name, or a file
    #[arg(short, long, value_name = "NAME|FILE", required_unless_present_any = ["list", "trace"])]
    workload: Option<String>,

    /// The workload as `millrace bench --json` measured it, written into a file
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,

    /// The machine: a shipped platform by name, or a file
    #[arg(short, long, value_name = "NAME|FILE", required_unless_present = "list")]
    platform: Option<String>,

    /// List shipped workloads and platforms
    #[arg(long)]
    list: bool,

    /// What is best: throughput, p99, power, host-cpu
    #[arg(long, default_value = "throughput", value_parser = ask::objective)]
    objective: Objective,

    /// What must be kept, for example p99=20us,host-cores=4 (mean, p50, p99, host-cores, watts, throughput)
    #[arg(long, value_name = "LIMITS", default_value = "", value_parser = ask::limits)]
    slo: Limits,

    /// Requests per second to be served, for example 5M, instead of the workload's [default: 70 % of what the best single alternative can]
    #[arg(long, value_parser = ask::rate)]
    rate: Option<f64>,

    /// So many mixtures are simulated and ranked
    #[arg(long, default_value_t = 5, value_name = "K", value_parser = clap::value_parser!(u8).range(1..=20))]
    top: u8,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Show the ways through the machine and how busy each part is
    #[arg(long)]
    explain: bool,

    /// Print the plan as JSON
    #[arg(long)]
    json: bool,

    /// Write a page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

type Failure = Box<dyn Error>;

impl Plan {
    /// Does it.
    ///
    /// # Errors
    /// A workload or platform that is not there or wrong; a question that has no answer; a page that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        if self.list {
            return print(&list()?);
        }
        let (workload, remark) = self.workload()?;
        let platform = platform(self.platform.as_deref().unwrap_or_default())?;
        let question = Question {
            objective: self.objective,
            limits: self.slo,
            rate: self.rate,
            top: usize::from(self.top),
            seed: self.seed,
        };
        let plan = model::plan::plan(&platform, &workload, &question)?;
        if self.json {
            print(&(serde_json::to_string_pretty(&plan)? + "\n"))?;
        } else {
            print(&text::plan(&plan, remark.as_deref()))?;
            if self.explain {
                print(&picture::text(&plan.ranking[0]))?;
            }
        }
        let Some(file) = &self.report else { return Ok(()) };
        let page = page::page(&plan, remark.as_deref()).html();
        std::fs::write(file, page).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    /// The workload, and what is to be said of where it came from.
    fn workload(&self) -> Result<(Workload, Option<String>), Failure> {
        if let Some(file) = &self.trace {
            let name = file.display().to_string();
            let (workload, remark) = trace::workload(&read(&name)?, &name)?;
            return Ok((workload, Some(remark)));
        }
        let name = self.workload.as_deref().unwrap_or_default();
        match shipped::shipped(name) {
            Some(workload) => Ok((workload?, None)),
            None if std::path::Path::new(name).is_file() => Ok((Workload::parse(&read(name)?, name)?, None)),
            None => {
                let known: Vec<_> = shipped::SHIPPED.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                Err(format!("{name} is neither a file nor a shipped workload; there are {known}").into())
            }
        }
    }
}

fn read(file: &str) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|cause| format!("{file}: {cause}").into())
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

fn list() -> Result<String, Failure> {
    let mut workloads = Table::new(["workload", "what"]);
    for (name, _) in shipped::SHIPPED {
        let workload = shipped::shipped(name).expect("it is in the list")?;
        workloads.row([*name, &*workload.title]);
    }
    let mut platforms = Table::new(["platform", "what"]);
    for (name, _) in model::platform::shipped::SHIPPED {
        let platform = platform(name)?;
        if families::ALL.iter().any(|family| family.name == platform.family) {
            platforms.row([*name, &*platform.title]);
        }
    }
    Ok(format!("{workloads}\n{platforms}"))
}
