//! Bugs planted in the program (`PLANTED` in bpf/box.c), each of which the checks must find. Needs root and clang-19; without either it says
//! that it was skipped, and passes.
//!
//! All but one bug are found at once, always. The one in the seqlock shows only when a write falls into the 100 ns in which the program copies
//! an entry, on another CPU: its check is repeated until that has happened.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use support::checks::{self, Bench};
use support::{filter, own, skip};

type Check = fn(&mut Bench);

const RACE: &str = "an entry may change while it is read";

const BUGS: [(usize, &str, Check); 9] = [
    (1, "keys of one length are all the same", checks::keys_of_one_hash_are_told_apart),
    (2, "leases have no end", checks::leases_and_lives_end),
    (3, "items have no end", checks::leases_and_lives_end),
    (4, "a request's checksum is not looked at", checks::damaged_requests_are_passed_on),
    (5, RACE, checks::nothing_is_answered_after_its_removal_and_nothing_half),
    (6, "the reply has the request's deadline", checks::the_reply_returns_what_the_request_says),
    (7, "a reply that is shorter leaves the frame as long", checks::values_of_every_length),
    (8, "what a box sent on is answered to that box", checks::only_plain_gets_are_answered),
    (
        12,
        "a try that would change something is answered as if it did not",
        checks::tries_are_computed_where_they_change_nothing,
    ),
];

type OwnerCheck = fn(&mut own::Bench);

const OWNER_RACE: &str = "an entry that another writes is written";

const OWNER_BUGS: [(usize, &str, OwnerCheck); 7] = [
    (13, "a write is done as often as it comes", own::writes_are_the_models),
    (14, "more is done than there is room to remember", own::writes_are_the_models),
    (15, "whoever writes is believed", own::strangers_are_passed_on),
    (16, "an owner's time has no end", own::loans_end_with_their_time),
    (17, "two packets have one number", own::writes_are_the_models),
    (18, "two writes have one version", own::writes_are_the_models),
    (19, OWNER_RACE, own::nothing_is_done_twice_or_after_it_was_taken_back),
];

#[test]
fn bugs_planted_in_the_owner_are_found() {
    let what = "bugs_planted_in_the_owner_are_found";
    if own::Bench::new(what, None, true).is_none() {
        return;
    }
    for (number, bug, check) in &OWNER_BUGS {
        let Some(object) = build(*number) else {
            return skip(what, "clang-19 and llvm-19 are not installed");
        };
        let attempts = if *bug == OWNER_RACE { 100 } else { 1 };
        let found = (0..attempts).any(|_| {
            let mut bench = own::Bench::new(what, Some(&object), true).expect("it was not skipped");
            catch_unwind(AssertUnwindSafe(|| check(&mut bench))).is_err()
        });
        assert!(found, "the check does not see that {bug}");
    }
}

type FilterCheck = fn(&mut filter::Bench);

const FILTER_BUGS: [(usize, &str, FilterCheck); 3] = [
    (9, "what was seen long ago counts for ever", filter::decisions_are_the_references),
    (10, "a frame that is sent on keeps its TTL", filter::what_is_seen_again_goes_up),
    (11, "a frame that is sent on keeps its UDP checksum", filter::what_is_seen_again_goes_up),
];

#[test]
fn planted_bugs_are_found() {
    let what = "planted_bugs_are_found";
    if Bench::new(what).is_none() {
        return;
    }
    for (number, bug, check) in &BUGS {
        let Some(object) = build(*number) else {
            return skip(what, "clang-19 and llvm-19 are not installed");
        };
        let found = (0..attempts(bug)).any(|_| {
            let mut bench = Bench::with_object(what, &object).expect("it was not skipped");
            catch_unwind(AssertUnwindSafe(|| check(&mut bench))).is_err()
        });
        assert!(found, "the check does not see that {bug}");
    }
}

#[test]
fn bugs_planted_in_the_filter_are_found() {
    let what = "bugs_planted_in_the_filter_are_found";
    for (number, bug, check) in &FILTER_BUGS {
        let Some(object) = build(*number) else {
            return skip(what, "clang-19 and llvm-19 are not installed");
        };
        match catch_unwind(|| filter::run(what, Some(&object), *check)) {
            Ok(true) => return,
            Ok(false) => panic!("the check does not see that {bug}"),
            Err(_) => {}
        }
    }
}

fn attempts(bug: &str) -> usize {
    if bug == RACE { 400 } else { 1 }
}

fn build(planted: usize) -> Option<Vec<u8>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/build");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{planted}.o"));
    let output = Command::new(script).arg(&object).arg(format!("-DPLANTED={planted}")).output().ok()?;
    output.status.success().then(|| std::fs::read(&object).expect("it was built"))
}
