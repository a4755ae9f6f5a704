//! Every shipped workload has a plan on every kind of machine that the planner knows.

use model::plan::{Objective, Plan, PlanError, Question, families, plan};
use model::platform::shipped as platforms;
use model::workload::shipped as workloads;

fn asked(workload: &str, platform: &str, question: &Question) -> Result<Plan, PlanError> {
    let workload = workloads::shipped(workload).expect("it is shipped").expect("it is sound");
    let platform = platforms::shipped(platform).expect("it is shipped").expect("it is sound");
    plan(&platform, &workload, question)
}

fn planned(workload: &str, platform: &str, question: &Question) -> Plan {
    asked(workload, platform, question).unwrap_or_else(|error| panic!("{platform}: {error}"))
}

/// On the last platform of each family: what is simulated is near what is computed, and nothing beats the linear programme.
fn everywhere(workload: &str) {
    let mut answered = 0;
    for family in families::ALL {
        let all = platforms::SHIPPED.iter().rev().map(|(name, _)| *name);
        let of = |name: &&str| {
            let platform = platforms::shipped(name).expect("it is in the list").expect("it is sound");
            platform.family == family.name
        };
        let Some(name) = all.into_iter().find(of) else { continue };
        let plan = match asked(workload, name, &Question { top: 1, ..Question::default() }) {
            Ok(plan) => plan,
            // Nothing there but a host whose cores are not to be had, or a machine for something else.
            Err(PlanError::Question(why)) => {
                println!("{workload} on {name}: {why}");
                continue;
            }
            Err(error) => panic!("{workload} on {name}: {error}"),
        };
        answered += 1;
        let first = &plan.ranking[0];
        let seen = first.saturated.expect("it ran").rate / first.most;
        println!(
            "{workload} on {name}: {} {:.3e}/s, simulated {seen:.2} of it; {}",
            first.name, first.most, plan.advice.why
        );
        assert!((0.5..1.05).contains(&seen), "{workload} on {name}: {seen} of what was computed");
        assert!(plan.greedy.throughput <= plan.greedy.programme * 1.001, "{:?}", plan.greedy);
        assert!(first.links.iter().all(|link| link.utilisation <= 1.001));
        assert!(!first.bottlenecks.is_empty() && plan.confidence.range.0 <= 1.0);
    }
    assert!(answered >= 2, "{workload} has a plan on {answered} kinds of machines only");
}

macro_rules! on_every_platform {
    ($($test:ident: $workload:literal;)*) => {$(
        #[test]
        fn $test() {
            everywhere($workload);
        }
    )*};
}

on_every_platform! {
    disaggregated_kv: "disaggregated-kv";
    file_replication: "file-replication";
    key_value_cache: "key-value-cache";
    embedding_reduction: "embedding-reduction";
    image_service: "image-service";
}

/// What the study's authors chose by hand (Wei et al., OSDI 2023, §5.2): A5 first, A4 when the SoC's cores are full.
#[test]
fn a_disaggregated_store_is_served_by_reads_of_the_index_and_a_cache_of_values() {
    let plan = planned("disaggregated-kv", "bluefield2-ib", &Question::default());
    let first = &plan.ranking[0];
    assert_eq!(first.name, "A4 + A5");
    let switch = &first.switches[0];
    assert_eq!((&*switch.before[0], &*switch.add), ("A5", "A4"));
    assert!((switch.rate / 17.6e6 - 1.0).abs() < 0.05, "{switch:?}");
}

/// … and §5.1: the SoC as long as it can, which spares the host, and the host itself beyond. Whether the SoC reads by RDMA or by DMA makes no difference
/// where its cores are what is full.
#[test]
fn files_are_replicated_by_the_soc_and_beyond_it_by_the_host() {
    let question = Question { objective: Objective::HostCpu, ..Question::default() };
    let plan = planned("file-replication", "bluefield2-ib", &question);
    let first = &plan.ranking[0];
    let published = plan.ranking.iter().find(|ranked| ranked.name == "A2 + A3").expect("it is ranked");
    assert!(first.name.ends_with("+ A3") && first.switches[0].add == "A3", "{}", first.name);
    assert!(published.value <= 1.05 * first.value, "{} and {}", published.value, first.value);
}
