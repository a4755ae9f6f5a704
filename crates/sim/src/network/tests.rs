use super::*;
use proptest::prelude::*;

const STORM: Weather = Weather {
    delay: Picos(1_000),
    jitter: Picos(500),
    late: PerMillion(100_000),
    late_by: Picos(100_000),
    lose: PerMillion(50_000),
    double: PerMillion(20_000),
    damage: PerMillion(10_000),
};

/// When each copy of `count` messages from 0 to 1 arrives.
fn arrivals(network: &mut Network, count: u64) -> Vec<(u64, u64, Vec<u8>)> {
    let mut out = Vec::new();
    for i in 0..count {
        let bytes = i.to_le_bytes().to_vec();
        network.send(Picos(i * 10), 0, 1, bytes, |at, bytes| out.push((i, at.0, bytes)));
    }
    out
}

#[test]
fn the_counts_of_a_seed_are_exact() {
    let mut network = Network::new(7, 2, STORM);
    let arrived = arrivals(&mut network, 100_000);
    let counts = network.counts();
    assert_eq!(counts.arriving, arrived.len() as u64);
    assert_eq!(counts.arriving, counts.sent - counts.lost + counts.doubled);
    let damaged = arrived.iter().filter(|(i, _, bytes)| *bytes != i.to_le_bytes()).count() as u64;
    // Two flips of one bit cancel out: a few damaged ones are whole.
    assert!(counts.damaged - damaged <= counts.damaged / 50, "{damaged} of {}", counts.damaged);
    let want = Counts {
        sent: 100_000,
        arriving: 96_876,
        lost: 4_978,
        cut: 0,
        held: 0,
        doubled: 1_854,
        damaged: 965,
    };
    assert_eq!(counts, want);
    assert!(arrived.iter().all(|&(i, at, _)| (1_000..=101_500).contains(&(at - i * 10))));
}

#[test]
fn the_same_seed_does_the_same_again() {
    let run = |seed| arrivals(&mut Network::new(seed, 2, STORM), 1_000);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn jitter_reorders_and_fair_weather_does_not() {
    let is_sorted = |weather| arrivals(&mut Network::new(1, 2, weather), 1_000).is_sorted_by_key(|a| a.1);
    assert!(is_sorted(Weather::fair(Picos(77))));
    assert!(!is_sorted(Weather { jitter: Picos(100), ..Weather::fair(Picos(77)) }));
}

#[test]
fn other_links_do_not_matter() {
    let alone = arrivals(&mut Network::new(3, 4, STORM), 500);
    let mut busy = Network::new(3, 4, STORM);
    for from in 0..4 {
        for to in [0, 2, 3] {
            busy.send(Picos::ZERO, from, to, vec![1, 2, 3], |_, _| {});
        }
    }
    assert_eq!(arrivals(&mut busy, 500), alone);
}

/// Which messages of one for each link get through.
fn through(network: &mut Network) -> Vec<(Node, Node)> {
    let mut out = Vec::new();
    for from in 0..4 {
        for to in 0..4 {
            let reaches = network.reaches(from, to);
            let mut arrived = false;
            network.send(Picos::ZERO, from, to, vec![0], |_, _| arrived = true);
            assert_eq!(arrived, reaches);
            if !arrived {
                out.push((from, to));
            }
        }
    }
    out
}

#[test]
fn cuts_are_one_way_or_both_and_heal() {
    let mut network = Network::new(1, 4, Weather::fair(Picos(5)));
    let (left, right) = (NodeSet::below(2), NodeSet::one(3));
    network.begin(1, Links { from: left, to: right, both_ways: false }, Effect::Cut);
    assert_eq!(through(&mut network), [(0, 3), (1, 3)]);
    network.begin(2, Links { from: left, to: right, both_ways: true }, Effect::Cut);
    assert_eq!(through(&mut network), [(0, 3), (1, 3), (3, 0), (3, 1)]);
    network.end(1);
    assert_eq!(through(&mut network).len(), 4);
    network.end(2);
    assert_eq!(through(&mut network), []);
    network.begin(3, Links::ALL, Effect::Cut);
    assert_eq!(through(&mut network).len(), 16);
    network.calm();
    assert_eq!(through(&mut network), []);
    assert_eq!(network.counts().cut, 2 + 4 + 4 + 16);
}

#[test]
fn a_clog_holds_what_is_sent_into_it() {
    let mut network = Network::new(1, 2, Weather::fair(Picos(5)));
    network.begin(1, Links::one(0, 1), Effect::Clog(Picos(1_000)));
    let mut at = Vec::new();
    network.send(Picos(10), 0, 1, vec![], |when, _: Vec<u8>| at.push(when.0));
    network.send(Picos(10), 1, 0, vec![], |when, _: Vec<u8>| at.push(when.0));
    network.end(1);
    network.send(Picos(20), 0, 1, vec![], |when, _: Vec<u8>| at.push(when.0));
    assert_eq!(at, [1_005, 15, 25]);
    assert_eq!(network.counts().held, 1);
}

#[test]
fn the_latest_weather_counts() {
    let mut network = Network::new(1, 2, Weather::fair(Picos(5)));
    let lossy = Weather { lose: PerMillion::percent(100), ..Weather::default() };
    network.begin(1, Links::ALL, Effect::Weather(lossy));
    assert_eq!(arrivals(&mut network, 10), []);
    network.begin(2, Links::one(0, 1), Effect::Weather(Weather::fair(Picos(1))));
    assert_eq!(arrivals(&mut network, 10).len(), 10);
    network.send(Picos::ZERO, 1, 0, vec![1], |_, _: Vec<u8>| panic!("that link is lossy"));
    network.end(1);
    network.end(2);
    network.set_usual(lossy);
    assert_eq!(arrivals(&mut network, 10), []);
}

proptest! {
    #[test]
    fn weather_round_trips_as_text(t in any::<[u64; 3]>(), c in prop::array::uniform4(0u32..=1_000_000)) {
        let c = c.map(PerMillion);
        let weather = Weather {
            delay: Picos(t[0]), jitter: Picos(t[1]), late: c[0], late_by: Picos(t[2]), lose: c[1], double: c[2], damage: c[3],
        };
        for weather in [weather, weather.draw_milder(&mut Prng::new(t[0])), Weather::default()] {
            prop_assert_eq!(weather.to_string().parse(), Ok(weather));
        }
    }

    #[test]
    fn damage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..20), seed: u64) {
        let length = bytes.len();
        bytes.damage(&mut Prng::new(seed));
        prop_assert!(bytes.len() <= length);
    }
}
