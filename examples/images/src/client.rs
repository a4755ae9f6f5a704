//! A client that has pictures sealed, over the fabric or over gRPC.

use crate::proto::photo::{Photo, PhotosClient, User, UserMut};
use bench::grpc::Grpc;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView, Owned};
use fabric::channel::{CallOptions, Channel};
use fabric::link::Address;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// See the file's head.
pub enum Client {
    Fabric { channel: Box<Channel>, client: PhotosClient },
    Grpc(Grpc),
}

impl Client {
    /// To an address of the fabric (`tcp:HOST:PORT`, `shm:PATH`, …), or `grpc://HOST:PORT`.
    ///
    /// # Errors
    /// In words: no such address, nobody there, or somebody else.
    pub fn connect(address: &str) -> Result<Client, String> {
        let text = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        if let Some(place) = address.strip_prefix("grpc:") {
            let place = place
                .trim_start_matches("//")
                .parse()
                .map_err(|error: std::net::AddrParseError| text(&error))?;
            return Ok(Client::Grpc(Grpc::connect(place).map_err(|error| text(&error))?));
        }
        let place: Address = address.parse().map_err(|error| text(&error))?;
        let channel = Channel::connect(&place, &Default::default()).map_err(|error| text(&error))?;
        let client = PhotosClient::new(&channel).map_err(|error| text(&error))?;
        Ok(Client::Fabric { channel: Box::new(channel), client })
    }

    /// Has a picture sealed.
    ///
    /// # Errors
    /// In words: how the call ended.
    pub fn seal(&mut self, id: u64, token: &str, raw: &[u8]) -> Result<Owned<Photo>, String> {
        match self {
            Client::Fabric { channel, client } => {
                let options = CallOptions::within(PATIENCE);
                let photo = client.seal(&mut **channel, &options, |user| fill(user, id, token, raw));
                photo.map_err(|status| status.to_string())
            }
            Client::Grpc(grpc) => {
                let reply = grpc.call("/photo.Photos/Seal", &request(id, token, raw), None, PATIENCE)?;
                Owned::decode(&mut Decoder::default(), &reply).map_err(|error| error.to_string())
            }
        }
    }
}

fn fill(user: &mut UserMut<'_, '_>, id: u64, token: &str, raw: &[u8]) -> Result<(), OutOfMemory> {
    user.set_id(id);
    user.set_token(token)?;
    user.set_avatar(raw)
}

/// A request's bytes.
///
/// # Panics
/// Without memory.
pub fn request(id: u64, token: &str, raw: &[u8]) -> Vec<u8> {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("room");
    fill(&mut user, id, token, raw).expect("room");
    let mut encoder = Encoder::default();
    User::freeze(user).encode(&mut encoder).expect("it is no longer than a message may be").to_vec()
}
