//! The program on an interface: a client's socket in one network namespace, the box in another, a veth pair between them.
//! Needs root; without it every test says that it was skipped, and passes.

mod support;

use base::Nanos;
use protocol::wire::{HomeId, Kind, Packet, Version};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::namespace::{Pair, Path, within};
use support::{PORT, bytes, get, skipped};
use xdp::{Counter, Item, Live, LoadError, Mode, Options, Pass, Tier, now};

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        version: Version(1),
        item_flags: 0,
        kind: Kind::Bytes,
        lease_end: Nanos::MAX,
        expires: Nanos::MAX,
    }
}

fn options() -> Options {
    Options { capacity: 64, ..Options::new(PORT) }
}

/// On the box's interface.
fn load(pair: &Pair, mode: Mode, options: Options) -> Result<Tier, LoadError> {
    within(&pair.boxed, || Tier::load(&["b0"], mode, options))
}

/// A client's socket. The timeout ends a test that failed; none waits for it.
fn client(pair: &Pair) -> UdpSocket {
    let socket = within(&pair.client, || UdpSocket::bind("10.77.0.1:0").expect("the address is ours"));
    socket.connect(("10.77.0.2", PORT)).expect("a route is there");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it is no zero");
    socket
}

/// Asks, and waits for the reply's value.
fn ask(socket: &UdpSocket, key: &[u8], padding: usize) -> Vec<u8> {
    socket.send(&bytes(&get(key, padding))).expect("the frame leaves");
    let mut buffer = [0; 2048];
    let len = socket.recv(&mut buffer).expect("an answer comes");
    Packet::parse(&buffer[..len]).expect("a packet").value().to_vec()
}

fn answers(mode: Mode, what: &str) {
    let Some(pair) = Pair::new(what) else { return };
    let tier = load(&pair, mode, options());
    if skipped(what, &tier) {
        return;
    }
    let mut tier = tier.expect("it was not skipped");
    let _pass = (mode == Mode::Native)
        .then(|| within(&pair.client, || Pass::attach("c0")).expect("veth takes programs"));
    let user_tier = within(&pair.boxed, || UdpSocket::bind(("10.77.0.2", PORT)).expect("the port is free"));
    user_tier.set_read_timeout(Some(Duration::from_secs(20))).expect("it is no zero");
    let socket = client(&pair);

    for (len, padding) in [(0, 0), (1, 0), (190, 0), (208, 0), (1024, 1024), (16, 1024), (700, 600)] {
        let value = vec![len as u8; len];
        tier.entries_mut().put(&item(b"some key", &value), now()).expect("it fits");
        assert_eq!(ask(&socket, b"some key", padding), value, "{len} bytes with {padding} of padding");
    }
    assert_eq!(tier.counters().of_kind(Counter::Hits), 7);

    // What is not answered comes to the user tier as it was sent, and its answer gets back.
    let mut buffer = [0; 2048];
    tier.entries_mut().put(&item(b"some key", &[9; 1000]), now()).expect("it fits");
    for (key, because) in [(&b"another"[..], Counter::Miss), (b"some key", Counter::Room)] {
        let before = tier.counters();
        let request = bytes(&get(key, 40));
        socket.send(&request).expect("the frame leaves");
        let (len, from) = user_tier.recv_from(&mut buffer).expect("it comes up");
        assert_eq!(buffer[..len], request);
        assert_eq!(tier.counters().since(&before).of_kind(because), 1);
        user_tier.send_to(b"answer", from).expect("the frame leaves");
        assert_eq!(socket.recv(&mut buffer).expect("it arrives"), 6);
    }

    // Off the interface, everything comes up.
    tier.detach();
    tier.entries_mut().put(&item(b"some key", b"v"), now()).expect("it fits");
    socket.send(&bytes(&get(b"some key", 0))).expect("the frame leaves");
    user_tier.recv_from(&mut buffer).expect("it comes up");
}

#[test]
fn a_client_is_answered_in_the_driver() {
    answers(Mode::Native, "a_client_is_answered_in_the_driver");
}

#[test]
fn a_client_is_answered_after_the_driver() {
    answers(Mode::Generic, "a_client_is_answered_after_the_driver");
}

#[test]
fn a_new_box_takes_over_from_one_that_hands_over() {
    let what = "a_new_box_takes_over_from_one_that_hands_over";
    let Some(pair) = Pair::new(what) else { return };
    let first = load(&pair, Mode::Generic, options());
    if skipped(what, &first) {
        return;
    }
    let mut first = first.expect("it was not skipped");
    let socket = client(&pair);
    first.entries_mut().put(&item(b"key", b"kept"), now()).expect("it fits");
    assert_eq!(ask(&socket, b"key", 8), b"kept");

    let refused = load(&pair, Mode::Generic, options()).err().expect("the first box lives");
    assert!(
        matches!(refused, LoadError::InUse { process, .. } if process == std::process::id()),
        "{refused}"
    );

    let held = first.release();
    assert_eq!(ask(&socket, b"key", 8), b"kept");
    let second =
        load(&pair, Mode::Generic, Options { adopt: true, ..options() }).expect("it was handed over");
    assert_eq!(ask(&socket, b"key", 8), b"kept");
    drop(held);
    assert_eq!(ask(&socket, b"key", 8), b"kept");
    assert_eq!(second.generation(), 2);
    assert_eq!(second.counters().of_kind(Counter::Hits), 4);

    // One that begins anew is empty; so is one of another size, or another mode.
    let mut held = second.release();
    for (mode, capacity) in
        [(Mode::Generic, 64), (Mode::Generic, 256), (Mode::Native, 256), (Mode::Generic, 64)]
    {
        let mut next = load(&pair, mode, Options { capacity, ..options() }).expect("it was handed over");
        assert!(next.entries().is_empty());
        next.entries_mut().put(&item(b"key", b"new"), now()).expect("it fits");
        held = next.release();
    }
    assert_eq!(ask(&socket, b"key", 8), b"new");

    // With nobody to hold it, the program goes.
    drop(held);
    let last = load(&pair, Mode::Native, options()).expect("nothing is there any more, or nobody's");
    assert!(last.entries().is_empty());
}

/// A key's first request goes past the box to its home, which hears it from the client; the second comes to the box.
fn filters(mode: Mode, what: &str) {
    let Some(path) = Path::new(what) else { return };
    let options = Options { live: Live { filter: 2, ..options().live }, ..options() };
    let tier = within(&path.boxed, || Tier::load(&["b0", "b1"], mode, options));
    if skipped(what, &tier) {
        return;
    }
    let tier = tier.expect("it was not skipped");
    let _passes = (mode == Mode::Native).then(|| {
        [(&path.client, "c0"), (&path.server, "s0")]
            .map(|(namespace, name)| within(namespace, || Pass::attach(name)).expect("veth takes programs"))
    });
    let bind = |namespace, address| {
        let socket = within(namespace, || UdpSocket::bind(address).expect("the address is ours"));
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it is no zero");
        socket
    };
    let home = bind(&path.server, "10.78.0.1:7400");
    let user_tier = bind(&path.boxed, "10.77.0.2:7311");
    let client = bind(&path.client, "10.77.0.1:0");
    tier.set_home(HomeId(1), "10.78.0.1:7400".parse().expect("an address"));
    let mut buffer = [0; 2048];
    for i in 0..20u32 {
        let mut message = get(&i.to_le_bytes(), 64);
        message.header.home = HomeId(1);
        let request = bytes(&message);
        for receiver in [&home, &user_tier] {
            client.send_to(&request, ("10.77.0.2", PORT)).expect("the frame leaves");
            let (len, from) = receiver.recv_from(&mut buffer).expect("it arrives");
            assert_eq!((&buffer[..len], from), (&request[..], client.local_addr().expect("it has one")));
            receiver.send_to(b"answer", from).expect("the frame leaves");
            assert_eq!(client.recv(&mut buffer).expect("it arrives"), 6);
        }
    }
    let counts = tier.counters();
    assert_eq!((counts.of_kind(Counter::Forwarded), counts.of_kind(Counter::Miss)), (20, 20));
}

#[test]
fn seldom_keys_pass_by_in_the_driver() {
    filters(Mode::Native, "seldom_keys_pass_by_in_the_driver");
}

#[test]
fn seldom_keys_pass_by_after_the_driver() {
    filters(Mode::Generic, "seldom_keys_pass_by_after_the_driver");
}

#[test]
fn one_table_serves_several_interfaces_and_is_handed_over_whole() {
    let what = "one_table_serves_several_interfaces_and_is_handed_over_whole";
    let Some(path) = Path::new(what) else { return };
    let options = Options { adopt: true, ..options() };
    let load = |mode| within(&path.boxed, || Tier::load(&["b0", "b1", "b0"], mode, options));
    let first = load(Mode::Generic);
    if skipped(what, &first) {
        return;
    }
    let mut first = first.expect("it was not skipped");
    let [here, there] =
        [(&path.client, "10.77.0.1:0", "10.77.0.2"), (&path.server, "10.78.0.1:0", "10.78.0.2")].map(
            |(namespace, own, other)| {
                let socket = within(namespace, || UdpSocket::bind(own).expect("the address is ours"));
                socket.connect((other, PORT)).expect("a route is there");
                socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it is no zero");
                socket
            },
        );
    let both = |tier: &Tier, value: &[u8]| {
        assert_eq!(tier.attached(), 2);
        let before = tier.counters();
        assert_eq!((ask(&here, b"key", 8), ask(&there, b"key", 8)), (value.to_vec(), value.to_vec()));
        assert_eq!(tier.counters().since(&before).of_kind(Counter::Hits), 2);
    };
    first.entries_mut().put(&item(b"key", b"value"), now()).expect("it fits");
    both(&first, b"value");
    first.upgrade().expect("it loads again");
    both(&first, b"value");

    let held = first.release();
    let second = load(Mode::Generic).expect("it was handed over");
    drop(held);
    both(&second, b"value");
    let held = second.release();
    let _pass = [(&path.client, "c0"), (&path.server, "s0")]
        .map(|(namespace, name)| within(namespace, || Pass::attach(name)).expect("veth takes programs"));
    let mut third = load(Mode::Native).expect("it was handed over");
    drop(held);
    both(&third, b"value");
    third.detach();
    assert_eq!(third.attached(), 0);
}

/// Nobody is behind the program: a request that it does not answer stays unanswered, and the asker would say so.
#[test]
fn an_upgrade_leaves_no_request_unanswered() {
    let what = "an_upgrade_leaves_no_request_unanswered";
    let Some(pair) = Pair::new(what) else { return };
    let tier = load(&pair, Mode::Native, options());
    if skipped(what, &tier) {
        return;
    }
    let mut tier = tier.expect("it was not skipped");
    let _pass = within(&pair.client, || Pass::attach("c0")).expect("veth takes programs");
    tier.entries_mut().put(&item(b"key", b"value"), now()).expect("it fits");
    let socket = client(&pair);
    let done = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut answered = 0;
            while !done.load(Relaxed) {
                assert_eq!(ask(&socket, b"key", 8), b"value");
                answered += 1;
            }
            answered
        });
        for _ in 0..10 {
            tier.upgrade().expect("it loads again");
        }
        done.store(true, Relaxed);
        asker.join().expect("every request was answered")
    });
    assert_eq!(tier.counters().of_kind(Counter::Hits), answered);
    assert_eq!(tier.generation(), 11);
}

#[test]
fn what_cannot_be_attached_says_why() {
    let what = "what_cannot_be_attached_says_why";
    let Some(pair) = Pair::new(what) else { return };
    if skipped(what, &load(&pair, Mode::Generic, options())) {
        return;
    }
    let none = within(&pair.boxed, || Tier::load(&["nothing0"], Mode::Native, options())).err();
    assert!(matches!(none, Some(LoadError::NoInterface(name)) if name == "nothing0"));
    let loopback = within(&pair.boxed, || Tier::load(&["lo"], Mode::Native, options())).err();
    let text = loopback.expect("the loopback has no driver").to_string();
    assert!(text.contains("try the generic mode"), "{text}");
    let _pass = within(&pair.boxed, || Pass::attach("b0")).expect("veth takes programs");
    for mode in [Mode::Native, Mode::Generic] {
        let refused = load(&pair, mode, options()).err().expect("a program is there");
        assert!(matches!(&refused, LoadError::Occupied(name) if name == "b0"), "{refused}");
    }
}
