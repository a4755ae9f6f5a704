//! What must hold of the filter, frame by frame, in a namespace whose routes lead to a home. Each check panics at what is wrong.

use super::namespace::{self, Path, within};
use super::{PORT, bytes, checksum, frame, get, skipped, tagged};
use base::{Nanos, Prng};
use protocol::wire::{BoxId, Flags, HomeId, Kind, Message, Origin, Token, Version};
use std::net::SocketAddrV4;
use xdp::reference::Reference;
use xdp::reference::filter::{Sketch, sent_on};
use xdp::{Counter, Item, Live, Options, Program, Tier, now};

const PASS: u32 = 2;
const REDIRECT: u32 = 4;
const HOME: HomeId = HomeId(0x301);
/// As many as a table of 64 entries gets.
const LINES: usize = 256;

/// A tier with an empty table, on no interface, whose filter knows one home.
pub struct Bench {
    tier: Tier,
    program: Program,
    live: Live,
    window: u32,
    home: SocketAddrV4,
    own_mac: [u8; 6],
    next_mac: [u8; 6],
}

/// Runs a check; true where this machine cannot, after a line that says so.
pub fn run(what: &str, object: Option<&[u8]>, check: fn(&mut Bench)) -> bool {
    let Some(path) = Path::new(what) else { return true };
    let tier = Tier::unattached(Options { capacity: 64, ..Options::new(PORT) });
    if skipped(what, &tier) {
        return true;
    }
    let mut tier = tier.expect("it was not skipped");
    if let Some(object) = object {
        tier.upgrade_to(object).expect("the kernel takes it");
    }
    let live = Live { filter: 2, ..Live::new(PORT) };
    tier.set_options(live);
    let home = SocketAddrV4::new("10.78.0.1".parse().expect("an address"), 7400);
    tier.set_home(HOME, home);
    let mut bench = Bench {
        program: tier.program().expect("descriptors are free"),
        tier,
        live,
        window: 0,
        home,
        own_mac: bytes_of(&namespace::mac(&path.boxed, "b1")),
        next_mac: bytes_of(&namespace::mac(&path.server, "s0")),
    };
    within(&path.boxed, || check(&mut bench));
    false
}

fn bytes_of(mac: &str) -> [u8; 6] {
    let mut bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
    std::array::from_fn(|_| bytes.next().expect("six bytes"))
}

/// A client's own, to the home.
fn ask(key: &[u8]) -> Message {
    let mut request = get(key, 16);
    request.header.home = HOME;
    request
}

impl Bench {
    fn age(&mut self) {
        self.tier.age_filter();
        self.window += 1;
    }

    /// Which counter says what became of the frame, which is as it came, or as the reference sends it on.
    fn run(&self, frame: &[u8]) -> Counter {
        let before = self.tier.counters();
        let tried = self.program.run(frame, 1).expect("the kernel tries frames");
        let counted = self.tier.counters().since(&before);
        let counter = counted.iter().find(|(counter, count)| *counter != Counter::Datagrams && *count == 1);
        let (counter, _) = counter.expect("each frame is counted");
        if counter == Counter::Forwarded {
            assert_eq!(tried.action, REDIRECT);
            assert_eq!(tried.frame, sent_on(frame, self.home, self.own_mac, self.next_mac));
            let reference = Reference { entries: self.tier.entries(), live: self.live, mtu: 1500 };
            assert!(reference.is_screened(frame).is_some(), "the reference leaves it alone");
        } else {
            assert_eq!((tried.action, &tried.frame[..]), (PASS, frame));
        }
        counter
    }

    fn becomes(&self, request: &Message, counter: Counter) {
        assert_eq!(self.run(&frame(&bytes(request))), counter, "{request:?}");
    }
}

pub fn what_is_seen_again_goes_up(bench: &mut Bench) {
    bench.becomes(&ask(b"key"), Counter::Forwarded);
    bench.becomes(&ask(b"another"), Counter::Forwarded);
    bench.becomes(&ask(b"key"), Counter::Miss);
    // Two sights are one in the next window, so the third is the second; after two more windows they are none.
    bench.age();
    bench.becomes(&ask(b"key"), Counter::Miss);
    bench.age();
    bench.age();
    bench.becomes(&ask(b"key"), Counter::Forwarded);
    bench.tier.set_options(Live { filter: 0, ..bench.live });
    bench.becomes(&ask(b"never seen"), Counter::Miss);
}

pub fn decisions_are_the_references(bench: &mut Bench) {
    bench.live.filter = 3;
    bench.tier.set_options(bench.live);
    let (mut sketch, mut random) = (Sketch::new(LINES), Prng::new(1));
    let mut forwarded = 0;
    for _ in 0..20_000 {
        if random.chance(0.002) {
            bench.age();
        }
        let key = (random.below(1 + random.clone().below(1500))).to_le_bytes();
        let request = ask(&key);
        let seldom = sketch.see(request.hash(), bench.window) < 3;
        forwarded += u32::from(seldom);
        bench.becomes(&request, if seldom { Counter::Forwarded } else { Counter::Miss });
    }
    assert!((2000..18_000).contains(&forwarded), "{forwarded} of 20000");
}

pub fn only_clients_gets_of_what_is_not_here_are_sent_on(bench: &mut Bench) {
    let with = |change: fn(&mut Message)| {
        let mut request = ask(b"key");
        change(&mut request);
        request
    };
    bench.becomes(&with(|r| assert!(r.header.sharers.push(BoxId(1), Token(2)))), Counter::Grant);
    bench.becomes(&with(|r| r.header.flags = Flags::NO_CACHE), Counter::Other);
    bench.becomes(&with(|r| r.header.hops = 1), Counter::Relayed);
    bench.becomes(
        &with(|r| r.header.origin = Origin::new("10.1.2.3:9".parse().expect("one"))),
        Counter::Relayed,
    );
    assert_eq!(bench.run(&tagged(&bytes(&ask(b"key")))), Counter::Miss);
    let item = Item {
        key: b"key",
        value: b"value",
        version: Version(1),
        item_flags: 0,
        kind: Kind::Bytes,
        lease_end: Nanos(now().0 - 1),
        expires: Nanos::MAX,
    };
    bench.tier.entries_mut().put(&item, now()).expect("it fits");
    bench.becomes(&ask(b"key"), Counter::Lease);
    // None of these was a sight.
    bench.tier.entries_mut().clear();
    bench.becomes(&ask(b"key"), Counter::Forwarded);
}

pub fn where_no_way_is_known_it_goes_up(bench: &mut Bench) {
    let mut nowhere = ask(b"unknown home");
    nowhere.header.home = HomeId(1);
    bench.becomes(&nowhere, Counter::Stranded);
    let mut last_hop = frame(&bytes(&ask(b"last hop")));
    last_hop[14 + 8] = 1;
    checksum(&mut last_hop[14..]);
    assert_eq!(bench.run(&last_hop), Counter::Stranded);
    for (number, address) in [(2, "192.0.2.1:9"), (3, "10.77.0.2:9"), (4, "10.78.0.77:9")] {
        bench.tier.set_home(HomeId(number), address.parse().expect("an address"));
        let mut request = ask(address.as_bytes());
        request.header.home = HomeId(number);
        bench.becomes(&request, Counter::Stranded);
    }
    // Its place is another's now.
    bench.tier.set_home(HomeId(HOME.0 + 256), bench.home);
    bench.becomes(&ask(b"key"), Counter::Stranded);
}
