use super::super::Plan as Command;
use super::*;
use clap::{Args, FromArgMatches};

/// Asks, and gives what its page's sliders show.
fn shown(arguments: &[&str]) -> (Value, Command) {
    let command = Command::augment_args(clap::Command::new("plan"));
    let matches = command.try_get_matches_from([&["plan"], arguments].concat()).expect("they are right");
    let command = Command::from_arg_matches(&matches).expect("they are right");
    let platforms = command.platforms().expect("they are shipped");
    let workload = command.workload(&platforms[0]).expect("it is shipped").workload;
    let answers: Vec<Answer> =
        platforms.iter().map(|of| command.answer(of, &workload).expect("it is answered")).collect();
    let shown: Vec<Shown<'_>> =
        platforms.iter().zip(&answers).map(|(platform, answer)| Shown { platform, answer }).collect();
    let moved = moved(&shown, &command.question(), &workload).expect("they serve it");
    (moved.data, command)
}

/// The point of a machine at the start of all sliders but one.
fn point_at<'a>(data: &'a Value, machine: &'a Value, moved: Option<(usize, usize)>) -> &'a Value {
    let sliders = data["sliders"].as_array().into_iter().chain(machine["sliders"].as_array()).flatten();
    let index = sliders.enumerate().fold(0, |index, (number, slider)| {
        let start = slider["start"].as_u64().expect("a number") as usize;
        let step = moved.filter(|(of, _)| *of == number).map_or(start, |(_, step)| step);
        index * slider["steps"].as_array().expect("steps").len() + step
    });
    &machine["points"][index]
}

#[test]
fn a_slider_says_what_set_says() {
    let arguments = ["-w", "key-value-cache", "-p", "this-host", "--top", "1"];
    let (data, command) = shown(&arguments);
    let machine = &data["machines"][0];
    let platform = &command.platforms().expect("it is shipped")[0];
    let workload = command.workload(platform).expect("it is shipped").workload;
    let near = |said: &Value, most: f64| (said.as_f64().expect("a number") / most - 1.0).abs() < 1e-3;
    let most = |platform: &Platform, workload: &Workload| {
        let plan = command.answer(platform, workload).expect("it is answered").plan;
        let alone = plan.alternatives.iter().map(|one| one.most);
        alone.chain(plan.ranking.iter().map(|ranked| ranked.most)).fold(0.0, f64::max)
    };
    assert!(near(&point_at(&data, machine, None)[0], most(platform, &workload)), "as asked: {data}");
    // The sizes' last step: four times as large.
    assert_eq!(data["sliders"][0]["label"], "bytes of requests and replies");
    let steps = data["sliders"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.last().and_then(Value::as_str), Some("× 4"));
    let mut large = workload.clone();
    large.classes.iter_mut().for_each(|class| {
        (class.request, class.reply, class.store) = (class.request * 4, class.reply * 4, class.store * 4);
    });
    let at_most = &point_at(&data, machine, Some((0, steps.len() - 1)))[0];
    assert!(near(at_most, most(platform, &large)), "four times as large: {at_most}");
    // The machine's own first number, at the lower end of its range.
    let number = data["sliders"].as_array().map_or(0, Vec::len);
    let label = machine["sliders"][0]["label"].as_str().expect("a text");
    let name = label.split(',').next().expect("a name");
    let low = platform.number(name).expect("it is there").range.0;
    let at_low = &point_at(&data, machine, Some((number, 0)))[0];
    assert!(near(at_low, most(&platform.with(name, low), &workload)), "{name} at {low}: {at_low}");
}

#[test]
fn a_grid_is_bounded_and_its_loads_reach_beyond_what_is_served() {
    let (data, _) = shown(&["-w", "key-value-cache", "-p", "connectx6", "-p", "this-host", "--top", "1"]);
    let loads: Vec<f64> = data["loads"].as_array().expect("loads").iter().filter_map(Value::as_f64).collect();
    assert!(loads.windows(2).all(|pair| pair[0] < pair[1]), "{loads:?}");
    assert!(
        loads.contains(&rounded(data["rate"].as_f64().expect("a rate"))),
        "the rate that was asked for: {loads:?}"
    );
    for machine in data["machines"].as_array().expect("machines") {
        let points = machine["points"].as_array().expect("points");
        assert!((1..=POINTS_MAX).contains(&points.len()), "{} points", points.len());
        for point in points {
            let (most, at) = (point[0].as_f64().expect("a rate"), point[1].as_array().expect("loads"));
            assert_eq!(at.len(), loads.len());
            for (load, best) in loads.iter().zip(at) {
                assert!(best.is_null() || *load < most, "{load} of {most}: {best}");
                let part = best.get(2).and_then(Value::as_u64).unwrap_or(0) as usize;
                assert!(machine["parts"].as_array().is_some_and(|parts| part < parts.len()));
                assert!(best.is_null() || best[1].as_f64().is_some_and(|p99| p99 > 0.0), "{best}");
            }
        }
    }
}

#[test]
fn shares_stay_shares_and_nothing_becomes_empty() {
    let workload =
        model::workload::shipped::shipped("key-value-cache").expect("it is shipped").expect("it is sound");
    for slider in of_workload(&workload) {
        for step in 0..slider.steps.len() {
            let mut changed = workload.clone();
            slider.of_workload(step, &mut changed);
            assert_eq!(changed.check(), Ok(()), "{slider:?} at {step}");
            assert!(step != slider.start || changed == workload, "{slider:?} as asked");
        }
    }
    assert_eq!(positions(&[]), [Vec::<usize>::new()]);
}
