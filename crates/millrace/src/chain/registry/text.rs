//! A configuration as text: JSON, and a checksum, so that a damaged one is not believed.
//!
//! ```text
//!   {"chain":7,"epoch":5,"members":[{"replica":1,"incarnation":1763800000,"part":"serving"}]} crc32c 1a2b3c4d
//! ```

use protocol::chain::{Configuration, Epoch, Incarnation, Member, Part, ReplicaId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    chain: u32,
    epoch: u64,
    members: Vec<StoredMember>,
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
    let member = |member: &Member| StoredMember {
        replica: member.replica.0,
        incarnation: member.incarnation.0,
        part: match member.part {
            Part::Serving => StoredPart::Serving,
            Part::Syncing => StoredPart::Syncing,
        },
    };
    let members = configuration.members.iter().map(member).collect();
    let stored = Stored { chain, epoch: configuration.epoch.0, members };
    let json = serde_json::to_string(&stored).expect("numbers and words");
    format!("{json} crc32c {:08x}\n", crc32c::crc32c(json.as_bytes()))
}

/// Reads one of this chain.
pub(super) fn parse(chain: u32, text: &str) -> Result<Configuration, String> {
    let (json, sum) = text.trim_end().rsplit_once(" crc32c ").ok_or("its checksum is missing")?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| "its checksum is none")?;
    if sum != crc32c::crc32c(json.as_bytes()) {
        return Err("it was changed or damaged: its checksum is another".into());
    }
    let stored: Stored = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if stored.chain != chain {
        return Err(format!("it is of chain {}, and not of {chain}", stored.chain));
    }
    let member = |member: &StoredMember| Member {
        replica: ReplicaId(member.replica),
        incarnation: Incarnation(member.incarnation),
        part: match member.part {
            StoredPart::Serving => Part::Serving,
            StoredPart::Syncing => Part::Syncing,
        },
    };
    let members = stored.members.iter().map(member).collect();
    Ok(Configuration { epoch: Epoch(stored.epoch), members })
}
