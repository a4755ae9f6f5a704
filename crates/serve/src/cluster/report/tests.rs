//! Verdicts over answers that are made up: each says what is wrong, and no other.

use super::*;
use crate::process::table::Source;
use crate::txn::info::Member as InChain;
use protocol::chain::{Durability, Epoch, Incarnation, Lsn, ReplicaId};
use std::path::Path;

const FILE: &str = "\
[[box]]
id = 1
address = \"127.0.0.1:1\"
admin = \"9101\"
[[box]]
id = 2
address = \"127.0.0.1:2\"
[[home]]
id = 1
address = \"127.0.0.1:3\"
admin = \"9103\"
box = 1
[[controller]]
address = \"127.0.0.1:4\"
admin = \"9104\"
[[chain]]
number = 7
state = [\"s\"]
[[chain.replica]]
id = 1
address = \"tcp:127.0.0.1:11\"
peers = \"tcp:127.0.0.1:21\"
[[chain.replica]]
id = 2
address = \"tcp:127.0.0.1:12\"
peers = \"tcp:127.0.0.1:22\"
[[chain.controller]]
address = \"tcp:127.0.0.1:31\"
admin = \"9131\"
";

fn info(id: u16, members: &[(u16, bool)]) -> Answer {
    let member = |(id, syncing): &(u16, bool)| InChain {
        replica: ReplicaId(*id),
        incarnation: Incarnation(1),
        syncing: *syncing,
        address: None,
    };
    Answer::Info(Box::new(Info {
        chain: 7,
        replica: ReplicaId(id),
        incarnation: Incarnation(1),
        epoch: Epoch(if members.is_empty() { 0 } else { 4 }),
        members: members.iter().map(member).collect(),
        is_head: id == 1,
        is_tail: id == 2,
        serves_reads: true,
        last: Lsn(100 * u64::from(id)),
        durable: Lsn(100),
        committed: Lsn(100),
        applied: Lsn(100),
        durability: Durability::PowerLoss,
        media: "file".to_owned(),
        waiting: 0,
        under_way: 0,
        digest: None,
        hottest: Vec::new(),
        figures: Vec::new(),
        claim: None,
    }))
}

/// No replica has a lease.
fn no_reads(answers: &mut [Answer; 7]) {
    for answer in answers {
        if let Answer::Info(info) = answer {
            info.serves_reads = false;
        }
    }
}

fn page(text: &str) -> Answer {
    Answer::Page(text.to_owned(), None)
}

/// All is well, but for box 2, which has no admin port and is heard by its controller.
fn whole() -> [Answer; 7] {
    let both = [(1, false), (2, false)];
    [
        page(
            "millrace_inc_epoch{node=\"box:1\"} 5\nmillrace_inc_slots{node=\"box:1\",cache=\"cluster\"} 32\nmillrace_inc_slots{node=\"box:1\",cache=\"some\"} 0\nmillrace_inc_events_total{node=\"box:1\",tier=\"user\",event=\"hits\"} 3\nmillrace_inc_events_total{node=\"box:1\",tier=\"xdp\",event=\"hits\"} 4\n",
        ),
        Answer::Unasked,
        page("millrace_kv_items 12\nmillrace_kv_home_events_total{event=\"hits\"} 2\n"),
        page(
            "millrace_inc_active{node=\"controller:0\"} 1\nmillrace_inc_silent_seconds{node=\"controller:0\",of=\"box:2\"} 0.05\n",
        ),
        info(1, &both),
        info(2, &both),
        page(
            "millrace_chain_controller_leads{chain=\"7\",controller=\"0\"} 1\nmillrace_chain_controller_silent_seconds{chain=\"7\",controller=\"0\",replica=\"2\"} 3\n",
        ),
    ]
}

fn silent() -> Answer {
    Answer::Silent("nobody listens".to_owned())
}

fn report(change: impl FnOnce(&mut [Answer; 7])) -> Report {
    let path = Path::new("c.toml");
    let file = File::of(&Source::of(path, FILE), path).expect("a good file");
    let mut answers = whole();
    change(&mut answers);
    Report::of(&file, &answers)
}

#[test]
fn a_whole_cluster_is_whole_and_says_what_it_counted() {
    let report = report(|_| ());
    assert_eq!(report.line(), "whole: 7 of 7 members do their part");
    let text = report.text().split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    for words in [
        "box:1 box 127.0.0.1:1 alive 5 500.0 ms hits 7, slots cluster 32\n",
        "box:2 box 127.0.0.1:2 heard\n",
        "items 12, hits 2",
        "chain:7/replica:1 head tcp:127.0.0.1:11 alive 4 reads applied 100, lag 100",
        "controller, leads",
    ] {
        assert!(text.contains(words), "{words:?} in\n{text}");
    }
    assert_eq!(report.json()["code"], 0);
    assert_eq!(report.json()["members"][4]["figures"]["lag"], 100);
}

#[test]
fn what_is_missing_is_named_and_weighed() {
    let alone = [(1, false)];
    type Change<'a> = &'a dyn Fn(&mut [Answer; 7]);
    let cases: [(Change<'_>, Verdict, &str); 12] = [
        (&no_reads, Verdict::Down, "chain:7 serves no reads: its tail has not agreed"),
        (
            &|a| {
                no_reads(a);
                a[6] = silent();
            },
            Verdict::Down,
            "chain:7 serves no reads: leases are over",
        ),
        (
            &|a| a[0] = silent(),
            Verdict::Degraded,
            "box:1 is silent (nobody listens): clients and homes go round it",
        ),
        (&|a| a[2] = silent(), Verdict::Down, "home:1 is silent (nobody listens): nobody serves its part"),
        (
            &|a| a[2] = Answer::Page(String::new(), Some("silent for a lease".into())),
            Verdict::Degraded,
            "home:1 is not ready: silent for a lease",
        ),
        (
            &|a| a[3] = page("millrace_inc_silent_seconds{node=\"controller:0\",of=\"box:2\"} 9\n"),
            Verdict::Degraded,
            "box:2 is silent for 9 s",
        ),
        (
            &|a| (a[4], a[5]) = (info(1, &alone), silent()),
            Verdict::Degraded,
            "chain:7/replica:2 is silent for 3 s (nobody listens)",
        ),
        (
            &|a| (a[4], a[5]) = (info(1, &alone), info(2, &[])),
            Verdict::Degraded,
            "chain:7/replica:2 is not ready: it is given|it is not in the chain",
        ),
        (
            &|a| a[5] = silent(),
            Verdict::Down,
            "chain:7 serves no writes: replica 2 is in its configuration (epoch 4) and silent",
        ),
        (
            &|a| (a[4], a[5]) = (silent(), silent()),
            Verdict::Down,
            "chain:7 serves nothing: no replica answers",
        ),
        (&|a| a[6] = silent(), Verdict::Degraded, "chain:7 no controller leads: writes go on, reads end"),
        (
            &|a| (a[4], a[5]) = (info(1, &[]), info(2, &[])),
            Verdict::Down,
            "chain:7 serves nothing: it has no configuration yet",
        ),
    ];
    for (change, verdict, words) in cases {
        let report = report(change);
        let text = report.text();
        assert_eq!(report.verdict(), verdict, "{text}");
        assert!(words.split('|').any(|words| text.contains(words)), "{words:?} in\n{text}");
        assert_eq!(
            report.json()["code"],
            u8::from(verdict != Verdict::Whole) + u8::from(verdict == Verdict::Down)
        );
    }
}

#[test]
fn a_box_that_is_to_be_stopped_is_named_whether_it_runs_or_not() {
    let drained =
        |is: u8| page(&format!("millrace_inc_drained{{node=\"controller:0\",of=\"box:1\"}} {is}\n"));
    let waits = report(|answers| answers[3] = drained(0));
    assert!(waits.text().contains("box:1 is being drained"), "{}", waits.text());
    let stopped = report(|answers| (answers[0], answers[3]) = (silent(), drained(1)));
    assert!(stopped.text().contains("box:1 is drained: nobody waits for it"), "{}", stopped.text());
    for (report, state) in [(waits, "draining"), (stopped, "drained")] {
        assert_eq!(report.verdict(), Verdict::Degraded);
        assert_eq!(report.json()["members"][0]["state"], state);
    }
}

#[test]
fn who_cannot_be_asked_and_is_heard_by_nobody_is_not_counted_as_well() {
    let report = report(|answers| answers[3] = silent());
    let line = report.line();
    assert!(line.contains("5 of 7 members") && line.contains("1 cannot be asked: give them admin"), "{line}");
}
