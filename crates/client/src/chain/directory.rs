//! Where the replicas of a chain serve clients, as its controller says: at its admin port (`GET /chain`), and beside the configuration in etcd.
//!
//! ```text
//!   {"chain":7,"epoch":5,"replicas":[{"replica":1,"address":"tcp:10.0.0.1:7401","part":"serving"}]}
//! ```
//! It is a help and no authority: who is asked there says himself which replica of which chain he is, and the chain decides who answers what. So it
//! needs no checksum, and an old one only takes longer.
//!
//! Bounds: [`MAX_REPLICAS`], [`MAX_BYTES`] as text. What later versions add to it is ignored.

use fabric::link::Address;
use protocol::chain::{Epoch, ReplicaId};
use serde::{Deserialize, Serialize};

/// Replicas in a directory.
pub const MAX_REPLICAS: usize = 64;
/// Bytes of one as text.
pub const MAX_BYTES: u64 = 64 << 10;

/// The key in etcd, of a chain.
pub fn key(chain: u32) -> String {
    format!("/millrace/chain/{chain}/directory")
}

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The chain's number.
    pub chain: u32,
    /// The configuration that the controller had; 0: none yet.
    pub epoch: Epoch,
    /// From head to tail, then those that are in no part of it.
    pub replicas: Vec<Place>,
}

/// Where a replica serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number in the chain.
    pub replica: ReplicaId,
    /// By which clients find it.
    pub address: Address,
    /// What it does in the chain.
    pub part: Part,
}

/// What a replica does in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It serves.
    Serving,
    /// It is being brought up to date.
    Syncing,
    /// It is left out: nobody has heard of it lately.
    Out,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    chain: u32,
    epoch: u64,
    replicas: Vec<StoredPlace>,
}

#[derive(Serialize, Deserialize)]
struct StoredPlace {
    replica: u16,
    address: String,
    part: Part,
}

impl Directory {
    /// As text: one line of JSON.
    pub fn text(&self) -> String {
        let place = |place: &Place| StoredPlace {
            replica: place.replica.0,
            address: place.address.to_string(),
            part: place.part,
        };
        let replicas = self.replicas.iter().map(place).collect();
        let stored = Stored { chain: self.chain, epoch: self.epoch.0, replicas };
        serde_json::to_string(&stored).expect("numbers and words")
    }

    /// Reads one. A replica whose address is not understood here is left out.
    ///
    /// # Errors
    /// It is none, or has more replicas than any chain. A sentence.
    pub fn parse(text: &str) -> Result<Directory, String> {
        let stored: Stored = serde_json::from_str(text)
            .map_err(|error| format!("it is no directory of a chain's replicas: {error}"))?;
        if stored.replicas.len() > MAX_REPLICAS {
            return Err(format!("it names {} replicas; {MAX_REPLICAS} are the most", stored.replicas.len()));
        }
        let place = |place: StoredPlace| {
            let address = place.address.parse().ok()?;
            Some(Place { replica: ReplicaId(place.replica), address, part: place.part })
        };
        let replicas = stored.replicas.into_iter().filter_map(place).collect();
        Ok(Directory { chain: stored.chain, epoch: Epoch(stored.epoch), replicas })
    }

    /// The addresses, from head to tail.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.replicas.iter().map(|place| &place.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn directory() -> impl Strategy<Value = Directory> {
        let part = prop_oneof![Just(Part::Serving), Just(Part::Syncing), Just(Part::Out)];
        let place =
            (any::<u16>(), any::<[u8; 4]>(), any::<u16>(), part).prop_map(|(replica, ip, port, part)| {
                let [a, b, c, d] = ip;
                let address = format!("tcp:{a}.{b}.{c}.{d}:{port}").parse().expect("an address");
                Place { replica: ReplicaId(replica), address, part }
            });
        (any::<u32>(), any::<u64>(), vec(place, 0..5)).prop_map(|(chain, epoch, replicas)| Directory {
            chain,
            epoch: Epoch(epoch),
            replicas,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(directory in directory()) {
            prop_assert_eq!(Directory::parse(&directory.text()), Ok(directory));
        }

        #[test]
        fn any_text_is_one_or_refused(text in "[\\[\\]{}\",:a-z0-9 -]{0,80}|\\PC{0,80}") {
            if let Ok(read) = Directory::parse(&text) {
                prop_assert_eq!(Directory::parse(&read.text()), Ok(read));
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_left_out_or_said() {
        let odd = r#"{"chain":7,"epoch":5,"later":1,"replicas":[
            {"replica":1,"address":"quic:there","part":"serving"},{"replica":2,"address":"tcp:h:1","part":"out"}]}"#;
        let read = Directory::parse(odd).expect("what is later is ignored");
        assert_eq!(read.addresses().map(ToString::to_string).collect::<Vec<_>>(), ["tcp:h:1"]);
        for bad in ["", "[]", "<html>", r#"{"chain":7}"#] {
            assert!(Directory::parse(bad).expect_err("none").contains("no directory"), "{bad}");
        }
        let place = r#"{"replica":1,"address":"tcp:h:1","part":"out"}"#;
        let many = [place; MAX_REPLICAS + 1].join(",");
        let many = format!(r#"{{"chain":7,"epoch":5,"replicas":[{many}]}}"#);
        assert!(Directory::parse(&many).expect_err("too many").contains("65 replicas"));
    }
}
