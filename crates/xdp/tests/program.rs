//! The program in the kernel, frame by frame, without an interface, held against `xdp::reference`: the same frames are answered, with
//! the same bytes. Needs root (CAP_BPF, CAP_NET_ADMIN); without it every test says that it was skipped, and passes.

mod support;

use support::checks::{self, Bench};
use support::{filter, own};

macro_rules! filter_tests {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            filter::run(stringify!($name), None, filter::$name);
        }
    )*};
}

macro_rules! owner_tests {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            for sealed in [true, false] {
                if let Some(mut bench) = own::Bench::new(stringify!($name), None, sealed) {
                    own::$name(&mut bench);
                }
            }
        }
    )*};
}

macro_rules! tests {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            if let Some(mut bench) = Bench::new(stringify!($name)) {
                checks::$name(&mut bench);
            }
        }
    )*};
}

tests! {
    hits_of_every_size
    values_of_every_length
    the_reply_returns_what_the_request_says
    leases_and_lives_end
    only_plain_gets_are_answered
    keys_of_one_hash_are_told_apart
    tries_are_computed_where_they_change_nothing
    an_entry_that_is_being_written_is_left_alone
    a_removed_key_is_not_answered_again
    nothing_is_answered_after_its_removal_and_nothing_half
    damaged_requests_are_passed_on
    random_frames_are_treated_as_the_reference_does
    what_is_sampled_is_timed
    an_upgrade_keeps_the_entries
}

filter_tests! {
    what_is_seen_again_goes_up
    decisions_are_the_references
    only_clients_gets_of_what_is_not_here_are_sent_on
    where_no_way_is_known_it_goes_up
}

owner_tests! {
    writes_are_the_models
    loans_end_with_their_time
    what_is_lent_stays
    nothing_is_done_twice_or_after_it_was_taken_back
}

#[test]
fn strangers_are_passed_on() {
    if let Some(mut bench) = own::Bench::new("strangers_are_passed_on", None, true) {
        own::strangers_are_passed_on(&mut bench);
    }
}
