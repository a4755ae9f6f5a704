//! What an operator may tune, all of it while the gateway runs: in the config file, read again on SIGHUP.

use base::registers::Kind::{Choice, Count, Seconds};
use codec::memory::Place;

/// The values.
pub type Registers = base::registers::Registers<Id>;

const PLACES: &[&str] = &["host", "acc"];

base::registers! {
    listed by "the gateway's README lists them";
    PlaceRoute "place.route" Choice(PLACES), 0, 1, 0, live, "Where routes, neighbours and errors are: on the host or on the accelerator.";
    PlaceNat "place.nat" Choice(PLACES), 0, 1, 0, live, "Where addresses are translated.";
    PlaceCrypto "place.crypto" Choice(PLACES), 0, 1, 0, live, "Where packets are sealed and opened: on the host, or in compute units.";
    NatFlows "nat.flows" Count, 1, 1 << 24, 65_536, live, "Flows that are translated at once; more are refused.";
    NatTcp "nat.tcp" Seconds, 1, 1 << 20, 7440, live, "How long an established TCP flow is kept without a packet (RFC 5382: 2 h 4 min at least).";
    NatOpening "nat.opening" Seconds, 1, 1 << 20, 240, live, "The same for TCP flows that are being opened or closed (RFC 5382: 4 min at least).";
    NatUdp "nat.udp" Seconds, 1, 1 << 20, 300, live, "The same for UDP (RFC 4787: 2 min at least, 5 recommended).";
    NatEcho "nat.echo" Seconds, 1, 1 << 20, 60, live, "The same for ICMP echo (RFC 5508: 60 s at least).";
}

/// Where each stage is, by number.
pub type Placement = [Place; 3];

/// As the registers have it.
pub fn placement(registers: &Registers) -> Placement {
    [Id::PlaceRoute, Id::PlaceNat, Id::PlaceCrypto]
        .map(|id| if registers.is_on(id) { Place::Acc } else { Place::Host })
}

/// Has the registers say a placement.
pub fn set_placement(registers: &Registers, placement: Placement) {
    for (id, place) in [Id::PlaceRoute, Id::PlaceNat, Id::PlaceCrypto].into_iter().zip(placement) {
        registers.write(id, u64::from(place == Place::Acc)).expect("a switch has both values");
    }
}

/// All eight, the host's first.
pub fn placements() -> impl Iterator<Item = Placement> {
    let place = |bits: u8, stage: u8| if bits & (4 >> stage) != 0 { Place::Acc } else { Place::Host };
    (0..8).map(move |bits| [0, 1, 2].map(|stage| place(bits, stage)))
}

/// As tables show it: `host acc acc`.
pub fn show(placement: Placement) -> String {
    placement.map(|place| if place == Place::Acc { "acc " } else { "host" }).join(" ")
}

#[test]
fn registers_are_well_formed() {
    base::registers::check::<Id>();
    assert_eq!(placements().count(), 8);
    let registers = Registers::default();
    for all in placements() {
        set_placement(&registers, all);
        assert_eq!(placement(&registers), all);
    }
}
