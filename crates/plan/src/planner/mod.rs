//! `millrace plan`: who should serve a workload on a machine.
//!
//! The planner itself is `model::plan`; here are its arguments (`ask`), numbers that are set otherwise (`what_if`), workloads from what `millrace bench`
//! measured (`trace`), from recordings (`recording`) and of nodes that run (`live`), which both have seen methods (`seen`), and what people see: tables
//! (`text`), costs (`money`), several platforms beside each other (`machines`), the ways through a machine (`picture`), a page (`page`) with numbers
//! that its reader moves (`sliders`).

pub(crate) mod ask;
mod live;
mod machines;
mod money;
mod page;
mod picture;
mod recording;
mod seen;
mod sliders;
mod text;
mod trace;
mod what_if;

use crate::model::platform;
use crate::parallel;
use crate::print;
use bench::report::Table;
use clap::Args;
use live::AtNodes;
use machines::Machine;
use model::Platform;
use model::plan::cost::{Cost, Economy, cost};
use model::plan::curve::curves;
use model::plan::{Limits, Objective, PlanError, Question, Simulation, families, plan_by};
use model::workload::{Workload, shipped};
use serve::process::parse::duration_of;
use serve::process::tls::TlsClientArgs;
use serve::trace::Port;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use trace::Measured;
use what_if::{Change, Refused};

/// Find out who should serve a workload on a machine: host, SmartNIC, accelerator, a box in the network, or several of them.
///
/// Alternatives and their mixtures are weighed by a linear programme over the machine's resources, the best few are simulated, and the ranking says
/// throughput, latency, host cores, watts, what is full, and what ten per cent more of that would buy. The answer may be: do not offload.
#[derive(Args, Debug)]
pub struct Plan {
    /// The workload: a shipped one by name, or a file
    #[arg(short, long, value_name = "NAME|FILE", required_unless_present_any = ["list", "trace", "live"])]
    workload: Option<String>,

    /// The workload of a file: a recording of requests (--record of a server), or what `millrace bench --json` measured
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "live"])]
    trace: Option<PathBuf>,

    /// The workload of a node that runs, by its admin port; several times: nodes whose rates add up. What is predicted for where it serves stands beside what
    /// it measures
    #[arg(long, value_name = "HOST:ADMIN", conflicts_with = "workload")]
    live: Vec<Port>,

    /// How long nodes are watched; Ctrl-C ends it early
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration_of(1..=86_400))]
    window: Duration,

    /// Of --live and of a recording: the service whose requests are the workload, where there are several
    #[arg(long, value_name = "NAME", conflicts_with = "workload")]
    service: Option<String>,

    /// Write the workload into this file, for -w
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsClientArgs,

    /// The machine: a shipped platform by name, or a file; several times, or `all`: one table of them [default for --live: this-host]
    #[arg(short, long, value_name = "NAME|FILE|all", required_unless_present_any = ["list", "live"])]
    platform: Vec<String>,

    /// What would this very load do elsewhere: items separated by ;, each machine=NAME|FILE or PART.KEY=VALUE as in --set. Several times: a row each, below
    /// that of the machine as it is
    #[arg(long, value_name = "ITEM[;ITEM…]")]
    what_if: Vec<String>,

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
        let platforms = self.platforms()?;
        let asked = self.workload(&platforms[0])?;
        if let Some(file) = &self.output {
            let text = toml::to_string(&asked.workload)?;
            std::fs::write(file, text).map_err(|cause| format!("{}: {cause}", file.display()))?;
        }
        match &platforms[..] {
            [one] if !self.what_if.is_empty() => self.on_what_ifs(one, &asked),
            [one] => self.on_one(one, &asked),
            _ if !self.what_if.is_empty() => {
                Err("--what-if starts from one machine: give one -p, and others as machine=NAME".into())
            }
            several => self.on_several(several, &asked),
        }
    }

    fn platforms(&self) -> Result<Vec<Platform>, Failure> {
        match &self.platform[..] {
            [] => Ok(vec![platform("this-host")?]),
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
        Ok(Answer { plan, cost, what_if: None, measured: None, live: None })
    }

    /// Platform and workload as `--set` has them, and what is another.
    fn changed(
        &self,
        platform: &Platform,
        workload: &Workload,
    ) -> Result<(Platform, Workload, Vec<Change>), Refused> {
        what_if::all(&self.set, platform, workload)
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
        if let Some(at_nodes) = &asked.at_nodes {
            let placed = at_nodes.placed(&changed, &workload, Some(&answer.plan), self.seed)?;
            remarks.extend(at_nodes.beside(placed, &changed.name));
            answer.live = Some(serde_json::json!({ "measured": at_nodes, "predicted": placed }));
        }
        Ok((answer, remarks))
    }

    fn on_one(&self, platform: &Platform, asked: &Asked) -> Result<(), Failure> {
        let (answer, remarks) = self.compared(platform, asked)?;
        if self.json {
            print(&(serde_json::to_string_pretty(&answer.json())? + "\n"))?;
        } else {
            asked.print_table()?;
            print(&text::plan(&answer, &remarks))?;
            if self.explain {
                print(&picture::text(&answer.plan.ranking[0]))?;
            }
        }
        let Some(file) = &self.report else { return Ok(()) };
        let mut page = page::page(&answer, &remarks);
        let (platform, workload, _) = self.changed(platform, &asked.workload).map_err(Refused::why)?;
        let shown = [sliders::Shown { platform: &platform, answer: &answer }];
        sliders::add(&mut page, file, &shown, (&self.question(), &workload));
        page.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    /// A row of a table.
    fn machine(&self, name: String, platform: &Platform, workload: &Workload) -> Machine {
        let outcome = self.answer(platform, workload).and_then(|answer| {
            let builder = families::builder(platform, workload)?;
            let curves = match self.report {
                Some(_) => curves(builder, platform, workload, &self.question(), &answer.plan)?,
                None => Vec::new(),
            };
            Ok((answer, curves))
        });
        Machine { name, platform: platform.clone(), outcome: outcome.map_err(|why| why.to_string()) }
    }

    /// The machine as it is, and as each `--what-if` has it.
    fn on_what_ifs(&self, own: &Platform, asked: &Asked) -> Result<(), Failure> {
        let mut rows = vec![(own.name.clone(), self.changed(own, &asked.workload).map_err(Refused::why)?)];
        for text in &self.what_if {
            let scenario = what_if::Scenario::parse(text)?;
            let machine = scenario.machine.as_deref().map_or_else(|| Ok(own.clone()), platform)?;
            let sets: Vec<String> = self.set.iter().chain(&scenario.sets).cloned().collect();
            let changed = what_if::all(&sets, &machine, &asked.workload);
            rows.push((
                text.trim().to_owned(),
                changed.map_err(|why| format!("--what-if {text:?}: {}", why.why()))?,
            ));
        }
        let (platform, workload, _) = &rows[0].1;
        let placed = match &asked.at_nodes {
            Some(at_nodes) => at_nodes.placed(platform, workload, None, self.seed)?,
            None => None,
        };
        let rows =
            rows.iter().map(|(name, (platform, workload, _))| self.machine(name.clone(), platform, workload));
        let rows: Vec<Machine> = rows.collect();
        let first = asked.at_nodes.as_ref().map(|at_nodes| (at_nodes, placed));
        let title = &asked.workload.title;
        if self.json {
            let mut whole = machines::json(&rows);
            if let Some((measured, predicted)) = &first {
                whole["live"] = serde_json::json!({ "measured": measured, "predicted": predicted });
            }
            print(&(serde_json::to_string_pretty(&whole)? + "\n"))?;
        } else {
            asked.print_table()?;
            print(&machines::show_what_ifs(title, &rows, first.as_ref(), &asked.remarks))?;
        }
        let Some(file) = &self.report else { return Ok(()) };
        let page = machines::page(title, &rows);
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
            machines.push(self.machine(platform.name.clone(), &changed, &workload));
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
            asked.print_table()?;
            print(&(machines::show(title, &machines) + &remarks.collect::<String>()))?;
        }
        let Some(file) = &self.report else { return Ok(()) };
        let mut page = machines::page(title, &machines);
        let workload = self.workload_of(platforms, &asked.workload);
        let shown: Vec<sliders::Shown<'_>> = machines.iter().filter_map(Machine::shown).collect();
        sliders::add(&mut page, file, &shown, (&self.question(), &workload));
        page.write(file).map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    /// The workload as `--set` has it, whichever of the platforms knows the other numbers that are set.
    fn workload_of(&self, platforms: &[Platform], asked: &Workload) -> Workload {
        let changed = platforms.iter().find_map(|platform| self.changed(platform, asked).ok());
        changed.map_or_else(|| asked.clone(), |(_, workload, _)| workload)
    }

    /// The workload, and what is to be said of where it came from; `own` is the machine of nodes that are watched, as the model has it.
    fn workload(&self, own: &Platform) -> Result<Asked, Failure> {
        if !self.live.is_empty() {
            self.tls.apply()?;
            let seen = live::watch(&self.live, self.window, self.json)?;
            let live::Taken { workload, table, remarks, at_nodes } =
                live::take(&seen, self.service.as_deref(), own)?;
            return Ok(Asked {
                workload,
                remarks,
                measured: None,
                at_nodes: Some(at_nodes),
                table: Some(table),
            });
        }
        if let Some(file) = &self.trace {
            let trace::Taken { workload, measured, remarks, table } =
                trace::of_file(file, self.service.as_deref())?;
            return Ok(Asked { workload, remarks, measured: Some(measured), at_nodes: None, table });
        }
        let name = self.workload.as_deref().unwrap_or_default();
        match shipped::shipped(name) {
            Some(workload) => Ok(Asked::plain(workload?)),
            None if std::path::Path::new(name).is_file() => {
                Ok(Asked::plain(Workload::parse(&read(name)?, name)?))
            }
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
    /// Where it is of nodes that run.
    at_nodes: Option<AtNodes>,
    /// Method by method, where that was seen.
    table: Option<String>,
}

impl Asked {
    /// One that was written by somebody.
    fn plain(workload: Workload) -> Asked {
        Asked { workload, remarks: Vec::new(), measured: None, at_nodes: None, table: None }
    }

    fn print_table(&self) -> Result<(), Failure> {
        self.table.as_ref().map_or(Ok(()), |table| print(&format!("{table}\n")))
    }
}

/// What is answered for one platform.
struct Answer {
    plan: model::plan::Plan,
    cost: Cost,
    /// What `--set` changed.
    what_if: Option<serde_json::Value>,
    measured: Option<Measured>,
    /// What nodes measured, and what is predicted for their placement.
    live: Option<serde_json::Value>,
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
        if let Some(live) = &self.live {
            whole["live"] = live.clone();
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
