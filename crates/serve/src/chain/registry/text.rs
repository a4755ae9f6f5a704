//! A configuration as text: JSON, and a checksum, so that a damaged one is not believed.
//!
//! ```text
//!   {"chain":7,"epoch":5,"reset":0,"kept":0,"members":[{"replica":1,"incarnation":1763800000,"part":"serving"}]} crc32c 1a2b3c4d
//! ```
//! What orders made of it (`roster`, `left`, `ordered`) is there after the first one only: a controller of an earlier version reads what it
//! would have written itself, and refuses the rest.

use protocol::chain::{
    Action, Configuration, Epoch, Incarnation, Lsn, Member, Order, Part, ReplicaAddress, ReplicaId, Slots,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    chain: u32,
    epoch: u64,
    /// Absent in what was written before there were resets with a number: no reset.
    #[serde(default)]
    reset: u64,
    /// Absent in what was written before it was kept: nothing.
    #[serde(default)]
    kept: u64,
    members: Vec<StoredMember>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roster: Vec<StoredAddress>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<StoredMember>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordered: Option<StoredOrder>,
    /// Absent where the chain has all, as all had that were before there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slots: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAddress {
    replica: u16,
    peers: String,
    clients: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredOrder {
    number: u64,
    action: StoredAction,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredAction {
    Add(StoredAddress),
    Remove { replica: u16, least: u16 },
}

impl StoredMember {
    fn of(member: &Member) -> StoredMember {
        StoredMember {
            replica: member.replica.0,
            incarnation: member.incarnation.0,
            part: match member.part {
                Part::Serving => StoredPart::Serving,
                Part::Syncing => StoredPart::Syncing,
            },
        }
    }

    fn member(&self) -> Member {
        Member {
            replica: ReplicaId(self.replica),
            incarnation: Incarnation(self.incarnation),
            part: match self.part {
                StoredPart::Serving => Part::Serving,
                StoredPart::Syncing => Part::Syncing,
            },
        }
    }
}

impl StoredAddress {
    fn of(at: &ReplicaAddress) -> StoredAddress {
        StoredAddress { replica: at.replica.0, peers: at.peers.clone(), clients: at.clients.clone() }
    }

    fn address(self) -> ReplicaAddress {
        ReplicaAddress { replica: ReplicaId(self.replica), peers: self.peers, clients: self.clients }
    }
}

impl StoredOrder {
    fn of(order: &Order) -> StoredOrder {
        let action = match &order.action {
            Action::Add(at) => StoredAction::Add(StoredAddress::of(at)),
            Action::Remove(ReplicaId(replica), least) => {
                StoredAction::Remove { replica: *replica, least: *least }
            }
        };
        StoredOrder { number: order.number, action }
    }

    fn order(self) -> Order {
        let action = match self.action {
            StoredAction::Add(at) => Action::Add(at.address()),
            StoredAction::Remove { replica, least } => Action::Remove(ReplicaId(replica), least),
        };
        Order { number: self.number, action }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMember {
    replica: u16,
    incarnation: u64,
    part: StoredPart,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredPart {
    Serving,
    Syncing,
}

/// Writes one.
pub(super) fn emit(chain: u32, configuration: &Configuration) -> String {
    let members = |members: &[Member]| members.iter().map(StoredMember::of).collect();
    let Configuration { epoch, reset, kept, .. } = configuration;
    let stored = Stored {
        chain,
        epoch: epoch.0,
        reset: reset.0,
        kept: kept.0,
        members: members(&configuration.members),
        roster: configuration.roster.iter().map(StoredAddress::of).collect(),
        left: members(&configuration.left),
        ordered: configuration.ordered.as_ref().map(StoredOrder::of),
        slots: Some(&configuration.slots).filter(|slots| !slots.is_all()).map(Slots::to_string),
    };
    let json = serde_json::to_string(&stored).expect("numbers and words");
    format!("{json} crc32c {:08x}\n", crc32c::crc32c(json.as_bytes()))
}

/// Reads one of this chain.
pub(super) fn parse(chain: u32, text: &str) -> Result<Configuration, String> {
    let (whose, configuration) = read(text)?;
    if whose != chain {
        return Err(format!("it is of chain {whose}, and not of {chain}"));
    }
    Ok(configuration)
}

/// Reads one, and whose it is.
pub(super) fn read(text: &str) -> Result<(u32, Configuration), String> {
    let (json, sum) = text.trim_end().rsplit_once(" crc32c ").ok_or("its checksum is missing")?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| "its checksum is none")?;
    if sum != crc32c::crc32c(json.as_bytes()) {
        return Err("it was changed or damaged: its checksum is another".into());
    }
    let stored: Stored = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let members = |members: Vec<StoredMember>| members.iter().map(StoredMember::member).collect();
    let slots = stored.slots.map_or(Ok(Slots::default()), |text| text.parse());
    let configuration = Configuration {
        epoch: Epoch(stored.epoch),
        reset: Epoch(stored.reset),
        kept: Lsn(stored.kept),
        members: members(stored.members),
        roster: stored.roster.into_iter().map(StoredAddress::address).collect(),
        left: members(stored.left),
        ordered: stored.ordered.map(StoredOrder::order),
        slots: slots.map_err(|error| format!("its slots: {error}"))?,
    };
    Ok((stored.chain, configuration))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn configuration() -> impl Strategy<Value = Configuration> {
        let member =
            (any::<u16>(), any::<u64>(), any::<bool>()).prop_map(|(replica, incarnation, serves)| Member {
                replica: ReplicaId(replica),
                incarnation: Incarnation(incarnation),
                part: if serves { Part::Serving } else { Part::Syncing },
            });
        let address = |replica: u16| ReplicaAddress {
            replica: ReplicaId(replica),
            peers: format!("tcp:h:{replica}"),
            clients: "\"".repeat(usize::from(replica % 3)),
        };
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
        let orders = (vec(any::<u16>(), 0..4), any::<Option<(u64, u16, bool)>>(), 1_usize..9);
        (numbers, vec(member.clone(), 0..5), vec(member, 0..2), orders).prop_map(
            move |((epoch, reset, kept), members, left, (roster, ordered, of))| Configuration {
                slots: Slots::share(of / 2, of),
                epoch: Epoch(epoch),
                reset: Epoch(reset),
                kept: Lsn(kept),
                members,
                roster: roster.into_iter().map(address).collect(),
                left,
                ordered: ordered.map(|(number, replica, adds)| Order {
                    number,
                    action: match adds {
                        true => Action::Add(address(replica)),
                        false => Action::Remove(ReplicaId(replica), 2),
                    },
                }),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_changed_is_not(
            configuration in configuration(),
            chain: u32,
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let text = emit(chain, &configuration);
            prop_assert_eq!(parse(chain, &text), Ok(configuration.clone()));
            prop_assert!(parse(chain.wrapping_add(1), &text).is_err());
            let mut bytes = text.into_bytes();
            changes.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = *byte);
            // The end of the line and the case of a digit say nothing; four changed bytes in a row are found by their sum.
            if let Ok(read) = parse(chain, &String::from_utf8_lossy(&bytes)) {
                prop_assert_eq!(read, configuration);
            }
        }

        /// With a good sum, so that it is looked at.
        #[test]
        fn any_text_is_a_configuration_or_refused(json in "[\\[\\]{}\",:a-z0-9 -]{0,80}|\\PC{0,80}", chain: u32) {
            let _ = parse(chain, &json);
            if let Ok(read) = parse(chain, &format!("{json} crc32c {:08x}", crc32c::crc32c(json.as_bytes()))) {
                prop_assert_eq!(parse(chain, &emit(chain, &read)), Ok(read));
            }
        }
    }
}
