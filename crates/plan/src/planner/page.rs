//! A plan as a page.

use super::{Answer, picture, text};
use bench::report::format::{micros, short};
use bench::report::{Block, Drawing, Report, Section, Table, Tile, environment};
use model::plan::answer::Ranked;

/// The page.
pub(super) fn page(whole: &Answer, remarks: &[String]) -> Report {
    let plan = &whole.plan;
    let first = &plan.ranking[0];
    let mut answer: Vec<Block> = vec![Block::Tiles(tiles(first))];
    answer.extend(text::all_sentences(whole).into_iter().map(Block::Text));
    let mut sections = vec![
        Section { title: "Answer".into(), blocks: answer },
        Section { title: "Ranking".into(), blocks: vec![Block::Table(text::ranking(plan))] },
        Section { title: "Alternatives".into(), blocks: vec![Block::Table(text::alternatives(plan))] },
    ];
    if let Some(classes) = text::classes(plan) {
        let title = format!("Classes, as {} serves them", first.name);
        sections.push(Section { title, blocks: vec![Block::Table(classes)] });
    }
    for ranked in plan.ranking.iter().take(3) {
        let blocks = vec![Block::Plot(Drawing::picture(picture::svg(ranked))), Block::Table(links(ranked))];
        sections.push(Section { title: format!("{} through the machine", ranked.name), blocks });
    }
    let verdict = match (plan.advice.possible, plan.advice.offload) {
        (false, _) => "Nothing here serves it".into(),
        (true, true) => first.name.clone(),
        (true, false) => "Do not offload".into(),
    };
    Report {
        title: format!("{} on {}", plan.workload_title, plan.platform_title),
        subtitle: std::iter::once(&text::asked(plan)).chain(remarks).cloned().collect::<Vec<_>>().join("\n"),
        verdict: (first.misses.is_empty(), verdict),
        sections,
        environment: environment::facts(),
    }
}

fn tiles(first: &Ranked) -> Vec<Tile> {
    let tile =
        |label: &str, value: String, note: &str| Tile { label: label.into(), value, note: note.into() };
    let mut tiles = vec![tile("serves", format!("{}/s", short(first.most)), "by the linear programme")];
    tiles.extend(first.saturated.map(|seen| tile("serves", format!("{}/s", short(seen.rate)), "simulated")));
    let at = format!("at {}/s", short(first.rate));
    tiles.extend(first.at_rate.map(|seen| tile("p99", micros(seen.p99 * 1e6), &at)));
    tiles.extend(first.at_rate.map(|seen| tile("host cores", format!("{:.2}", seen.host_cores), &at)));
    let watts = first.at_rate.and_then(|seen| seen.watts);
    tiles.extend(watts.map(|watts| tile("watts", format!("{watts:.0}"), &at)));
    tiles
}

fn links(ranked: &Ranked) -> Table {
    let parts = ranked.parts.iter().map(|part| format!("by {}", part.name));
    let heads = ["part".to_string(), "computed".into(), "simulated".into()].into_iter().chain(parts);
    let mut table = Table::new(heads);
    let per_cent = |share: f64| format!("{:.1} %", share * 100.0);
    for link in &ranked.links {
        let simulated = link.simulated.map_or("–".into(), per_cent);
        let cells = [link.name.clone(), per_cent(link.utilisation), simulated];
        table.row(cells.into_iter().chain(link.by.iter().map(|by| per_cent(by * link.utilisation))));
    }
    table
}
