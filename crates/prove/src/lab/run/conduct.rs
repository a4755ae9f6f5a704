//! Kills and revives by a schedule, wherever the roles live, and notes when.

use super::kill::{Role, Step};
use super::record::now;
use crate::lab::LabError;
use base::Nanos;
use indicatif::ProgressBar;
use serve::process::progress;

/// Between two looks at the clock.
const STEP: Nanos = Nanos::from_millis(5);

/// Where the roles live: threads of this process, or processes in namespaces.
pub trait Stage {
    /// Ends one on the spot.
    fn kill(&mut self, role: Role) -> Result<(), LabError>;

    /// Starts one that is dead, with nothing of what it knew.
    fn revive(&mut self, role: Role) -> Result<(), LabError>;

    /// Whether one that was revived serves.
    fn is_ready(&mut self, role: Role) -> Result<bool, LabError>;

    /// Whether no client has anything left to do.
    fn is_done(&mut self) -> Result<bool, LabError>;
}

/// That one died. Times are since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Who.
    pub role: Role,
    /// When.
    pub at: Nanos,
    /// When it was ready again.
    pub back: Option<Nanos>,
}

/// Goes by the schedule until the end, which is since the beginning, or until nothing is left to do.
pub fn conduct(
    stage: &mut impl Stage,
    schedule: &[Step],
    (begun, end): (Nanos, Nanos),
    stop: &dyn Fn() -> bool,
    bar: &ProgressBar,
) -> Result<Vec<Death>, LabError> {
    let mut steps = schedule.iter().peekable();
    let mut deaths: Vec<Death> = Vec::new();
    let mut starting: Vec<Role> = Vec::new();
    loop {
        let past = now().since(begun);
        note_ready(stage, &mut starting, &mut deaths, begun)?;
        if stop() || stage.is_done()? {
            return Ok(deaths);
        }
        match steps.next_if(|step| past >= step.at) {
            Some(step) if step.lives => {
                stage.revive(step.role)?;
                starting.push(step.role);
            }
            Some(step) => {
                stage.kill(step.role)?;
                deaths.push(Death { role: step.role, at: now().since(begun), back: None });
            }
            None if past >= end => return Ok(deaths),
            None => std::thread::sleep(end.since(past).min(STEP).into()),
        }
        let dead = deaths.iter().rev().find(|death| death.back.is_none());
        let what = dead.map_or("all are at work".to_string(), |death| format!("{} is dead", death.role));
        progress::show(bar, past.as_secs_f64() / end.as_secs_f64(), &what);
    }
}

fn note_ready(
    stage: &mut impl Stage,
    starting: &mut Vec<Role>,
    deaths: &mut [Death],
    begun: Nanos,
) -> Result<(), LabError> {
    let mut still = Vec::new();
    for role in starting.drain(..) {
        if stage.is_ready(role)? {
            let death = deaths.iter_mut().rev().find(|death| death.role == role);
            death.expect("who comes back was dead").back = Some(now().since(begun));
        } else {
            still.push(role);
        }
    }
    *starting = still;
    Ok(())
}
