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
    Stage::new(&crate::model::platform(platform).expect("it is shipped"), &args(platform, more))
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
    let none = Stage::new(&toy, &args("toy", &[])).expect_err("nobody composes it");
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
        let player = Player { at, ..player(&stage, name) };
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
    let stage = stage("u280-ddr4", &[]).expect("it plays");
    let player = player(&stage, "model");
    let moves = |figures: Result<Vec<Figures>, String>| -> u32 {
        figures.expect("it plays").iter().map(|of| of.moves).sum()
    };
    let sound = moves(stage.play(&player, NoBugs));
    let mistaken = moves(stage.play(&player, Some(Planted::HysteresisOff)));
    assert!(sound >= 1 && mistaken > sound, "{sound} moves, and with the mistake {mistaken}");
}
