//! Models with plans for their tables: the same scores, the memory that they take, and plans that are refused.

use super::*;
use crate::memo::{Growth, Limits, Plan, PlanError};

/// A model of three tables in a folder of its own, with a plan for each.
struct Planned {
    dir: TempDir,
    model: Model,
    plan: Plan,
    options: LoadOptions,
}

impl Planned {
    fn new() -> Planned {
        let dir = TempDir::with_prefix("millrace-").expect("a folder");
        let mut model = Model::synth(&shape(5, 3, 16, Interaction::Dot)).expect("memory");
        model
            .tables
            .iter_mut()
            .zip([Pooling::Sum, Pooling::Mean, Pooling::Max])
            .for_each(|(table, p)| table.pooling = p);
        model.write(dir.path()).expect("written");
        // Rows 3n and 3n + 1 are asked together.
        let mut lists = Lists::new(50).expect("few features");
        (0..16).for_each(|n| lists.push(9, &[3 * n, 3 * n + 1]).expect("ids in range"));
        let plan = Growth::new(&lists, 1.2, Limits::default(), |_| ()).plan(1.2);
        assert!(plan.arena_rows() > 50);
        let mut options = LoadOptions::default();
        for (at, table) in model.tables().iter().enumerate() {
            let path = dir.path().join(format!("{at}.plan"));
            std::fs::write(&path, plan.save(table.hash())).expect("written");
            options.plans.push((table.name.clone(), path));
        }
        Planned { dir, model, plan, options }
    }
}

#[test]
fn the_memory_that_plans_take_is_counted() {
    let planned = Planned::new();
    let Planned { dir, plan, options, .. } = &planned;
    let within = |plans: &[(String, PathBuf)]| {
        let (dir, plans) = (dir.path(), plans.to_vec());
        move |max_bytes| {
            load(
                dir,
                &LoadOptions { max_bytes: Some(max_bytes), plans: plans.clone(), ..LoadOptions::default() },
            )
        }
    };
    let layers = refused_at(0, within(&[])).expect("they take some");
    let bare = refused_at(layers, within(&[])).expect("so do tables");
    assert_eq!(refused_at(bare, within(&[])), None);
    let first = refused_at(bare, within(&options.plans)).expect("plans take more");
    let arena = u64::from(plan.arena_rows()) * 64;
    let with_it = refused_at(first, within(&options.plans)).expect("and what they say more still");
    assert_eq!(with_it - first, arena, "the table is there until the arena is");
    // One table after the other: its rows are given back before the next one's arena is made.
    let most = bare + 3 * (arena + first - bare);
    assert_eq!(refused_at(most - 2 * 50 * 64, within(&options.plans)), None);
}

#[test]
fn a_planned_table_gives_the_same_scores_by_either_name_of_its_rows() {
    let given = Planned::new();
    let Planned { model, plan, options, .. } = &given;
    let dir = given.dir.path();
    let planned = load(dir, options).expect("the plans fit");
    assert!(planned.tables().iter().all(|table| table.len_bytes() > 50 * 64 && table.rows() == 50));
    assert_eq!(planned.hash(), model.hash());
    let queries = Queries::random(&mut Prng::new(5), model, 20);
    let want = queries.infer(model, 20).expect("scores");
    let have = queries.infer(&planned, 20).expect("scores");
    assert!(is_close(&have, &want, 1e-5), "{have:?} for {want:?}");
    // As keys, that somebody made before.
    let keyed: Vec<_> = queries
        .tables
        .iter()
        .zip(planned.tables())
        .map(|((ids, offsets, weights), table)| {
            let Access::Planned(planned) = table.access() else { panic!("it is planned") };
            let named: Vec<u32> = ids.iter().map(|&id| plan.remap()[id as usize]).collect();
            let bags = Bags::new(&named, offsets, weights.as_deref()).expect("bags");
            let (mut keys, mut ends) = (Vec::new(), Vec::new());
            planned.keys(&bags, table.pooling, &mut Vec::new(), &mut keys, &mut ends);
            (keys, ends, offsets.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<u32>>())
        })
        .collect();
    let bags: Vec<_> = (queries.tables.iter().zip(&keyed))
        .map(|((.., w), (k, e, counts))| Bags::keys(k, e, w.as_deref(), counts).expect("bags"))
        .collect();
    let batch = Batch { len: 20, dense: &queries.dense, bags: &bags };
    let (mut scratch, mut again) = (Scratch::default(), Vec::new());
    planned.infer(&batch, Tuning::default(), &mut scratch, &mut again).expect("scores");
    assert_eq!(again, have);
    assert!(
        matches!(model.check(&batch), Err(InputError::Bags(..))),
        "keys are no ids of a table without a plan"
    );
    // What is written of a planned model is the model.
    planned.write(dir).expect("written");
    assert_eq!(load(dir, &LoadOptions::default()).expect("ours").hash(), model.hash());
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let given = Planned::new();
    let Planned { model, options, .. } = &given;
    let dir = given.dir.path();
    // A plan of another table, one that is cut, one for no table, and one elsewhere.
    let path = |at: usize| options.plans[at].1.clone();
    let refused =
        |plans: Vec<(String, PathBuf)>| load(dir, &LoadOptions { plans, ..LoadOptions::default() }).err();
    assert!(matches!(refused(vec![("t0".into(), path(1))]), Some(LoadError::Plan(_, PlanError::Table(..)))));
    assert!(matches!(refused(vec![("t9".into(), path(1))]), Some(LoadError::Manifest(_))));
    assert!(matches!(refused(vec![("t0".into(), dir.join("x"))]), Some(LoadError::Io(..))));
    for (name, is_read) in [("0.plan", true), ("../0.plan", false), ("/etc/passwd", false), ("..", false)] {
        let mut manifest = model.manifest();
        manifest.tables.as_mut().expect("three")[0].plan = Some(name.to_owned());
        std::fs::write(dir.join("model.json"), manifest.to_json()).expect("written");
        assert_eq!(load(dir, &LoadOptions::default()).is_ok(), is_read, "{name}");
    }
}
