use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    contest: Contest,
}

/// Of a small contest.
fn args(platform: &str, more: &[&str]) -> Contest {
    let own = ["contest", "--on", platform, "--changes", "2", "--measure", "1s"];
    Cli::parse_from(own.iter().chain(more)).contest
}

fn stage(platform: &str, more: &[&str]) -> Result<Stage, String> {
    Stage::of(platform, &args(platform, more))
}

fn played(stage: &Stage, players: impl IntoIterator<Item = Player>) -> Outcome {
    let policies = players
        .into_iter()
        .map(|player| (player.name.clone(), stage.play(&player, NoBugs).expect("it plays")));
    stage.clone().outcome(policies.collect())
}

/// Of a name, without those that are fixed.
fn player(stage: &Stage, name: &str) -> Player {
    stage.players().into_iter().find(|player| player.name == name).expect("it plays")
}

#[test]
fn a_machine_that_cannot_play_says_why() {
    let one = stage("connectx6", &[]).expect_err("it has host cores alone");
    assert!(
        one.contains("connectx6 serves a key-value store at one place only") && one.contains("cxl-type2"),
        "{one}"
    );
    let toy = Platform::parse("name = \"toy\"\ntitle = \"a toy\"\nfamily = \"toys\"\n", "toy.toml")
        .expect("it is a platform");
    let none = Stage::new((&toy, String::new()), &args("toy", &[])).expect_err("nobody composes it");
    assert!(none.contains("toy is of family toys, which the planner does not know"), "{none}");
}

#[test]
fn places_are_those_of_the_machines_parts() {
    let names = |platform| {
        let stage = stage(platform, &[]).expect("it plays");
        let (places, start) = (stage.places.clone(), stage.start());
        (places.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), stage.places[start].0.clone())
    };
    let (cxl, start) = names("cxl-type2");
    assert_eq!(
        (&cxl[..], &*start),
        (&["host cores", "accelerator", "accelerator, local memory"].map(str::to_owned)[..], "host cores")
    );
    let (rack, start) = names("rack-of-bluefield2");
    assert_eq!(
        (&rack[..], &*start),
        (&["host", "tor, else host", "SoC", "tor, else SoC"].map(str::to_owned)[..], "host")
    );
}

/// The whole of a contest has one table by its seed, and nobody loses a request by it.
#[test]
fn a_seed_has_its_table() {
    let stage = stage("cxl-type2", &["--seed", "3"]).expect("it plays");
    let few = || stage.players().into_iter().take(5).chain([player(&stage, "accelerator")]);
    let one = Outcome { fixed: 1, ..played(&stage, few()) };
    let again = Outcome { fixed: 1, ..played(&stage, few()) };
    assert_eq!((&one.policies, &one.script), (&again.policies, &again.script));
    assert!(one.policies.iter().all(|(_, figures)| figures.len() == 3));
    assert_eq!(one.lost(), 0);
    let text = super::super::show::text(&one);
    assert!(
        text.contains("model, numbers off") && text.contains("host only") && text.contains("2 phases"),
        "{text}"
    );
    let page = super::super::show::page(&[one.clone(), one]).html();
    assert!(page.matches("Policies on cxl-type2").count() >= 2 && page.contains("best fixed"));
    let other = super::tests::stage("cxl-type2", &["--seed", "4"]).expect("it plays");
    assert_ne!(other.script, stage.script);
}

/// From a place that is too slow, who never moves answers a fifth of what is asked too late in every phase, and the placer next to nothing.
#[test]
fn who_never_moves_loses() {
    let stage = stage("bluefield2-ib", &[]).expect("it plays");
    let slow = stage.places.iter().position(|(name, _)| name == "A3").expect("the study has it");
    let scores = |name: &str, at| {
        let player = Player { at: At::one(at), ..player(&stage, name) };
        let figures = stage.play(&player, NoBugs).expect("it plays");
        figures.iter().map(Figures::score).collect::<Vec<_>>()
    };
    let (still, placer, wrong) =
        (scores("leave", slow), scores("model", slow), scores("model, numbers off", slow));
    assert!(still.iter().all(|score| *score < 0.8), "{still:?}");
    assert!(placer.iter().all(|score| *score > 0.95), "{placer:?}");
    assert!(wrong.iter().all(|score| *score > 0.9), "{wrong:?}");
}

/// A brain for which any gain is worth a move goes about between places that are alike.
#[test]
fn a_planted_mistake_is_seen() {
    let moves = |figures: Result<Vec<Figures>, String>| -> u32 {
        figures.expect("it plays").iter().map(|of| of.moves).sum()
    };
    let is_seen = |platform: &&str| {
        let stage = stage(platform, &[]).expect("it plays");
        let player = player(&stage, "model");
        let sound = moves(stage.play(&player, NoBugs));
        sound >= 1 && moves(stage.play(&player, Some(Planted::HysteresisOff))) > sound
    };
    assert!(["cxl-type2", "u280-ddr4", "bluefield2-ib"].iter().any(is_seen), "on no machine it moves more");
}

/// At rates that no place serves, a share of the requests at another place serves more than the best of them: the study's combination.
#[test]
fn a_load_that_no_place_serves_is_split() {
    let stage = stage("bluefield2-ib", &["--load", "4"]).expect("it plays");
    let fixed: Vec<Player> = stage.players().into_iter().filter(|player| player.policy.is_none()).collect();
    let outcome = Outcome {
        fixed: stage.places.len(),
        ..played(
            &stage,
            [player(&stage, "model"), player(&stage, "model, numbers off")].into_iter().chain(fixed),
        )
    };
    for name in ["model", "model, numbers off"] {
        let (_, figures) = outcome.policies.iter().find(|(of, _)| of == name).expect("it played");
        let ratios = outcome.over_best_fixed(figures);
        let best = ratios.iter().copied().fold(0.0, f64::max);
        assert!(best > 1.05 && ratios.iter().all(|ratio| *ratio > 0.9), "{name}: {ratios:?}");
        assert!(figures.iter().any(|of| of.placement.contains('%')), "{name}: {figures:?}");
        assert_eq!(figures.iter().map(Figures::lost).sum::<u64>(), 0);
    }
}

/// At rates that one place serves without the host there is nothing to gain by a second.
#[test]
fn a_load_that_a_place_serves_is_not_split() {
    let stage = stage("bluefield2-ib", &["--load", "0.5"]).expect("it plays");
    let figures = stage.play(&player(&stage, "model"), NoBugs).expect("it plays");
    assert!(figures.iter().all(|of| !of.placement.contains('%') && of.score() > 0.99), "{figures:?}");
}

/// What was decided on a machine of the model is decided again by its log, with numbers that are off as well.
#[test]
fn a_log_of_it_is_played_again() {
    let folder = tempfile::TempDir::with_prefix("millrace-").expect("a folder");
    let shown = folder.path().display().to_string();
    let stage = stage("bluefield2-ib", &["--load", "2", "--logs", &shown]).expect("it plays");
    for (name, file) in [("model", "model"), ("model, numbers off", "model-off"), ("greedy", "greedy")] {
        let figures = stage.play(&player(&stage, name), NoBugs).expect("it plays");
        let moves: u32 = figures.iter().map(|of| of.moves).sum();
        let text =
            std::fs::read_to_string(folder.path().join(format!("bluefield2-ib-{file}.log"))).expect("a log");
        let again = crate::placer::log::replay(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((again.decisions, again.observations > 10), (u64::from(moves), true), "{name}");
    }
    drop(folder);
    let gone = stage.play(&player(&stage, "model"), NoBugs).expect_err("there is no folder");
    assert!(gone.contains("bluefield2-ib-model.log"), "{gone}");
}
