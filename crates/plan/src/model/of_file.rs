//! Experiments of files, and the published results beside them, for commands.

use super::repro::experiment;
use super::{Failure, read};
use model::experiment::Experiment;
use model::experiment::file::FileExperiment;
use model::experiment::published::Results;
use model::system::System;
use std::path::Path;

/// Whether a name is that of a file and not an id.
pub(super) fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

/// The experiment, if no shipped one has its id: rows are told apart by it.
///
/// # Errors
/// One has.
pub(crate) fn experiment_of(own: FileExperiment, file: &str) -> Result<Experiment, String> {
    match experiment(&own.id) {
        Ok(_) => Err(format!("{file}: {} is the id of a shipped experiment; choose another", own.id)),
        Err(_) => Ok(own.experiment()),
    }
}

/// The experiment of a file as a system of its own, with the results that its file names. It is kept for as long as the process lives.
///
/// # Errors
/// A file that is not there or is wrong, with its line.
pub(super) fn system(file: &str) -> Result<&'static System, Failure> {
    let own = FileExperiment::parse(&read(file)?, file)?;
    let published = own.published.clone();
    let experiment = experiment_of(own, file)?;
    let all: &'static [Experiment] = Box::leak(Box::new([experiment]));
    let Some(name) = published else {
        return Ok(Box::leak(Box::new(System::own(experiment.id, experiment.title, all))));
    };
    let beside = Path::new(file).parent().unwrap_or(Path::new("")).join(name).display().to_string();
    let text = read(&beside).map_err(|why| format!("{file}: published: {why}"))?;
    Results::parse(&text, &beside)?;
    let published = (&*beside.leak(), &*text.leak());
    Ok(Box::leak(Box::new(System::with(experiment.id, experiment.title, all, published))))
}

/// The text of a sweep with the experiment of a file in it, so that the text alone says what rows depend on; others as they are. `file` is the sweep's name:
/// experiments are named from its folder on.
///
/// # Errors
/// The experiment's file is not there, or is wrong, with its line.
pub(crate) fn whole(text: String, file: &str) -> Result<String, Failure> {
    let Ok(mut table) = toml::from_str::<toml::Table>(&text) else { return Ok(text) };
    let name = table.get("experiment").and_then(toml::Value::as_str).filter(|name| is_file(name));
    let Some(name) = name else { return Ok(text) };
    let path = Path::new(file).parent().unwrap_or(Path::new("")).join(name).display().to_string();
    let own = read(&path).map_err(|why| format!("{file}: experiment: {why}"))?;
    FileExperiment::parse(&own, &path)?;
    table.insert("experiment".into(), toml::Value::Table(toml::from_str(&own)?));
    Ok(toml::to_string(&table)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Platforms;
    use model::experiment::compare::compare;
    use model::sweep::Sweep;
    use tempfile::TempDir;

    const OWN: &str = "id = \"KV\"\ntitle = \"t\"\nplatforms = [\"bluefield2-ib\"]\nworkload = \"disaggregated-kv\"\n\
        alternatives = [\"A4\"]\nwindows = [8]\npublished = \"kv.results.toml\"\n";
    const RESULTS: &str = "system = \"s\"\nsource = \"n\"\n[[result]]\nid = \"K-1\"\nwhat = \"w\"\nwhere = \"f\"\nclass = \"prediction\"\n\
        value = 1.0\nof = \"KV | A4 | 8 under way | throughput\"\n";

    fn folder(own: &str) -> (TempDir, String) {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("kv.toml");
        std::fs::write(&file, own).expect("there is room");
        std::fs::write(folder.path().join("kv.results.toml"), RESULTS).expect("there is room");
        (folder, file.display().to_string())
    }

    #[test]
    fn a_file_is_a_system_with_its_results() {
        let (_folder, file) = folder(OWN);
        let system = system(&file).expect("it is right");
        let rows = (system.experiments[0].run)(&Platforms::shipped(), 1).expect("it runs");
        let results = system.results().expect("they are right");
        let compared = compare(&results, &rows);
        assert!(compared[0].verdict.error().is_some_and(f64::is_finite), "{compared:?}");
        let (_folder, file) = folder(&OWN.replacen("\"KV\"", "\"F1\"", 1));
        assert!(super::system(&file).is_err_and(|why| why.to_string().contains("shipped experiment")));
        let (_folder, file) = folder(&OWN.replacen("kv.results", "no.results", 1));
        assert!(super::system(&file).is_err_and(|why| why.to_string().contains("published: ")));
    }

    #[test]
    fn a_sweep_takes_the_experiment_of_a_file_into_itself() {
        let (folder, _) = folder(OWN);
        let sweep = "title = \"s\"\nexperiment = \"kv.toml\"\n[[axis]]\nnumber = \"bluefield2-ib | network.latency\"\nvalues = [150, 400]\n";
        let file = folder.path().join("sweep.toml").display().to_string();
        let text = whole(sweep.into(), &file).expect("it is there");
        let parse = |text: &str| Sweep::parse(text, "a.toml", &Platforms::shipped()).expect("it is right");
        let sweep = parse(&text);
        let own = sweep.own.clone().expect("it is a table now");
        let experiment = own.experiment();
        let [near, far] = [0, 1].map(|run| sweep.perform(run, &experiment).expect("it runs"));
        assert!(near.rows == 5 && near.digest != far.digest);
        // A run's key is of what the experiment says, too; whatever else is in the file is as it was.
        assert_ne!(sweep.key(0), parse(&text.replacen("windows = [8]", "windows = [9]", 1)).key(0));
        assert_eq!(whole(text.clone(), &file).expect("nothing to do"), text);
        assert!(whole(text.replacen("title", "titel", 1), &file).is_ok());
        let missing = whole("experiment = \"none.toml\"".into(), &file);
        assert!(missing.is_err_and(|why| why.to_string().contains("none.toml")));
    }
}
