//! `millrace plan`: who should serve a workload on a machine.
//!
//! The planner itself is `model::plan`; here are its arguments (`ask`), numbers that are set otherwise (`what_if`), workloads from what `millrace bench`
//! measured (`trace`), and what people see: tables (`text`), costs (`money`), several platforms beside each other (`machines`), the ways through a machine
//! (`picture`), a page (`page`) with numbers that its reader moves (`sliders`).

pub(crate) mod ask;
mod machines;
mod money;
mod page;
mod picture;
mod sliders;
mod text;
mod trace;
mod what_if;

use crate::model::platform;
use crate::parallel;
use bench::report::{Block, Report, Section, Table};
use clap::Args;
use machines::Machine;
use model::Platform;
use model::plan::cost::{Cost, Economy, cost};
use model::plan::curve::curves;
use model::plan::{Limits, Objective, PlanError, Question, Simulation, families, plan_by};
use model::workload::{Workload, shipped};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::Measured;
use what_if::{Change, Refused};

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

    /// The machine: a shipped platform by name, or a file; several times, or `all`: one table of them
    #[arg(short, long, value_name = "NAME|FILE|all", required_unless_present = "list")]
    platform: Vec<String>,

    /// Another value for a number of the platform or of the workload, with its unit: soc.cores=16, workload.GET.reply=1KiB, price.machine=9000USD;
    /// several times. The answer says what changes by it
    #[arg(long, value_name = "PART.KEY=VALUE")]
    set: Vec<String>,

    /// Years that a machine is paid for
    #[arg(long, default_value_t = 4.0, value_parser = ask::positive)]
    years: f64,

    /// US dollars for a kilowatt hour
    #[arg(long, default_value_t = 0.12, value_parser = ask::positive)]
    kwh: f64,

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

    /// Write a page; a name that ends in .svg: the plots alone, .csv or .parquet: its figures as rows
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
        let asked = self.workload()?;
        match &self.platforms()?[..] {
            [one] => self.on_one(one, &asked),
            several => self.on_several(several, &asked),
        }
    }

    fn platforms(&self) -> Result<Vec<Platform>, Failure> {
        match &self.platform[..] {
            [all] if all == "all" => plannable(),
            names => names.iter().map(|name| platform(name)).collect(),
        }
    }

    fn question(&self) -> Question {
        Question {
            objective: self.objective,
            limits: self.slo,
            rate: self.rate,
            top: usize::from(self.top),
            seed: self.seed,
        }
    }

    fn answer(&self, platform: &Platform, workload: &Workload) -> Result<Answer, PlanError> {
        let question = self.question();
        let builder = families::builder(platform, workload)?;
        let what = format!("{} on {}", workload.name, platform.name);
        let plan = plan_by(builder, platform, workload, &question, &mut |all| {
            parallel::map(all, &what, Simulation::run)
        })?;
        let economy = Economy { years: self.years, kwh: self.kwh };
        let cost = cost(builder, platform, workload, &question, &plan, economy)?;
        Ok(Answer { plan, cost, what_if: None, measured: None })
    }

    /// Platform and workload as `--set` has them, and what is another.
    fn changed(
        &self,
        platform: &Platform,
        workload: &Workload,
    ) -> Result<(Platform, Workload, Vec<Change>), Refused> {
        let mut changes = Vec::new();
        let (mut platform, mut workload) = (platform.clone(), workload.clone());
        for one in &self.set {
            let (next, work, change) = what_if::set(one, &platform, &workload)?;
            (platform, workload) = (next, work);
            changes.push(change);
        }
        Ok((platform, workload, changes))
    }

    /// The answer, and what is to be said of where it came from and of what was set otherwise.
    fn compared(&self, platform: &Platform, asked: &Asked) -> Result<(Answer, Vec<String>), Failure> {
        let (changed, workload, changes) = self.changed(platform, &asked.workload).map_err(Refused::why)?;
        let mut answer = self.answer(&changed, &workload)?;
        let mut remarks = asked.remarks.clone();
        if !changes.is_empty() {
            // What is set may be what makes it possible.
            match self.answer(platform, &asked.workload) {
                Ok(before) => {
                    let (was, is) = ((&before.plan, &before.cost), (&answer.plan, &answer.cost));
                    remarks.extend(what_if::sentences(&changes, was, is));
                    answer.what_if = Some(what_if::json(&changes, was, is));
                }
                Err(why) => remarks.push(format!("without --set: {why}")),
            }
        }
        if let Some(measured) = asked.measured {
            remarks.extend(measured.beside(&answer.plan));
            answer.measured = Some(measured);
        }
        Ok((answer, remarks))
    }

    fn on_one(&self, platform: &Platform, asked: &Asked) -> Result<(), Failure> {
        let (answer, remarks) = self.compared(platform, asked)?;
        if self.json {
            print(&(serde_json::to_string_pretty(&answer.json())? + "\n"))?;
        } else {
            print(&text::plan(&answer, &remarks))?;
            if self.explain {
                print(&picture::text(&answer.plan.ranking[0]))?;
            }
        }
        let Some(file) = &self.report else { return Ok(()) };
        let mut page = page::page(&answer, &remarks);
        let (platform, workload, _) = self.changed(platform, &asked.workload).map_err(Refused::why)?;
        let shown = [sliders::Shown { platform: &platform, answer: &answer }];
        self.add_sliders(&mut page, file, &shown, &workload);
        page.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    /// All of them, and what was set that one or another has not.
    fn machines(
        &self,
        platforms: &[Platform],
        asked: &Asked,
    ) -> Result<(Vec<Machine>, Vec<String>), Failure> {
        let (mut machines, mut unknown) = (Vec::new(), Vec::new());
        for platform in platforms {
            // What one machine has, another need not have.
            let (changed, workload) = match self.changed(platform, &asked.workload) {
                Ok((platform, workload, _)) => (platform, workload),
                Err(Refused::Unknown(why)) => {
                    unknown.push(why);
                    (platform.clone(), asked.workload.clone())
                }
                Err(Refused::Wrong(why)) => return Err(why.into()),
            };
            let outcome = self.answer(&changed, &workload).and_then(|answer| {
                let builder = families::builder(&changed, &workload)?;
                let curves = match self.report {
                    Some(_) => curves(builder, &changed, &workload, &self.question(), &answer.plan)?,
                    None => Vec::new(),
                };
                Ok((answer, curves))
            });
            machines.push(Machine {
                name: platform.name.clone(),
                platform: changed,
                outcome: outcome.map_err(|why| why.to_string()),
            });
        }
        if unknown.len() == platforms.len() {
            return Err(unknown.remove(0).into());
        }
        Ok((machines, unknown))
    }

    fn on_several(&self, platforms: &[Platform], asked: &Asked) -> Result<(), Failure> {
        let (mut machines, unknown) = self.machines(platforms, asked)?;
        machines::sort(&mut machines);
        let title = &asked.workload.title;
        if self.json {
            print(&(serde_json::to_string_pretty(&machines::json(&machines))? + "\n"))?;
        } else {
            let remarks = asked.remarks.iter().chain(&unknown).map(|remark| format!("  {remark}\n"));
            print(&(machines::show(title, &machines) + &remarks.collect::<String>()))?;
        }
        let Some(file) = &self.report else { return Ok(()) };
        let mut page = machines::page(title, &machines);
        let workload = self.workload_of(platforms, &asked.workload);
        let shown: Vec<sliders::Shown<'_>> = machines.iter().filter_map(Machine::shown).collect();
        self.add_sliders(&mut page, file, &shown, &workload);
        page.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    /// The workload as `--set` has it, whichever of the platforms knows the other numbers that are set.
    fn workload_of(&self, platforms: &[Platform], asked: &Workload) -> Workload {
        let changed = platforms.iter().find_map(|platform| self.changed(platform, asked).ok());
        changed.map_or_else(|| asked.clone(), |(_, workload, _)| workload)
    }

    /// Numbers that the page's reader moves, as its second part; a file of rows or pictures has none.
    fn add_sliders(&self, page: &mut Report, file: &Path, shown: &[sliders::Shown<'_>], workload: &Workload) {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ["svg", "csv", "parquet"].contains(&ending) {
            return;
        }
        if let Some(moved) = sliders::moved(shown, &self.question(), workload) {
            let section = Section { title: "Move the numbers".into(), blocks: vec![Block::Moved(moved)] };
            page.sections.insert(1, section);
        }
    }

    /// The workload, and what is to be said of where it came from.
    fn workload(&self) -> Result<Asked, Failure> {
        let plain = |workload| Asked { workload, remarks: Vec::new(), measured: None };
        if let Some(file) = &self.trace {
            let name = file.display().to_string();
            let taken = trace::workload(&read(&name)?, &name)?;
            return Ok(Asked {
                workload: taken.workload,
                remarks: taken.remarks,
                measured: Some(taken.measured),
            });
        }
        let name = self.workload.as_deref().unwrap_or_default();
        match shipped::shipped(name) {
            Some(workload) => Ok(plain(workload?)),
            None if std::path::Path::new(name).is_file() => Ok(plain(Workload::parse(&read(name)?, name)?)),
            None => {
                let known: Vec<_> = shipped::SHIPPED.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                Err(format!("{name} is neither a file nor a shipped workload; there are {known}").into())
            }
        }
    }
}

/// The workload that is asked for.
struct Asked {
    workload: Workload,
    remarks: Vec<String>,
    /// Where it is a trace.
    measured: Option<Measured>,
}

/// What is answered for one platform.
struct Answer {
    plan: model::plan::Plan,
    cost: Cost,
    /// What `--set` changed.
    what_if: Option<serde_json::Value>,
    measured: Option<Measured>,
}

impl Answer {
    /// For programs: the plan with what is beside it.
    fn json(&self) -> serde_json::Value {
        let mut whole = serde_json::json!(self.plan);
        whole["cost"] = serde_json::json!(self.cost);
        if let Some(what_if) = &self.what_if {
            whole["what_if"] = what_if.clone();
        }
        if let Some(measured) = &self.measured {
            whole["measured"] = serde_json::json!(measured);
        }
        whole
    }
}

/// Shipped platforms of the families that the planner knows.
fn plannable() -> Result<Vec<Platform>, Failure> {
    let all = model::platform::shipped::SHIPPED.iter().map(|(name, _)| platform(name));
    let known = |of: &Platform| families::ALL.iter().any(|family| family.name == of.family);
    Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().filter(known).collect())
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
    for platform in plannable()? {
        platforms.row([&*platform.name, &*platform.title]);
    }
    Ok(format!("{workloads}\n{platforms}"))
}
