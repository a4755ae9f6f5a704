//! The same items by every kind of client.

use super::book::{USERS, text_key, user};
use super::clients::{Places, TIMEOUT, call, get, open};
use super::shop::proto::shop::{Profile, ProfileRequest};
use bench::grpc::Grpc;
use client::cache;
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::typed::{Message, MessageView, Owned};
use fabric::channel::CallOptions;

/// The same items by every kind of client, while nobody writes them: how many were compared.
///
/// # Errors
/// A client failed, or saw other bytes than another. A sentence.
pub fn compare(places: &Places) -> Result<usize, String> {
    let mut link = open(places.memcached)?;
    let mut behind = cache::Client::init(&places.topology, Some(1)).map_err(|error| error.to_string())?;
    let (mut channel, shop) = call(&places.fabric, None)?;
    let mut grpc = Grpc::connect(places.grpc)?;
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(Limits::default()));
    for number in 0..USERS {
        let (user, key, arena) = (user(number), text_key(number), Arena::default());
        let missing = || format!("{user} has no profile");
        let by_memcached = get(&mut link, &key)?.ok_or_else(missing)?;
        let by_box = behind.get(&key).map_err(|error| error.to_string())?.ok_or_else(missing)?.value;
        let options = CallOptions::within(TIMEOUT);
        let reply = shop.get_profile(&mut channel, &options, |request| request.set_user(&user));
        let by_fabric = reply.map_err(|status| status.to_string())?.view().text().to_vec();
        let mut request = ProfileRequest::new(&arena).map_err(|_| "no memory for a request".to_owned())?;
        request.set_user(&user).map_err(|_| "no memory for a request".to_owned())?;
        let body = ProfileRequest::freeze(request).encode(&mut encoder).map_err(|error| error.to_string())?;
        let reply = grpc.call("/shop.Shop/GetProfile", body, None, TIMEOUT)?;
        let profile = Owned::<Profile>::decode(&mut decoder, &reply).map_err(|error| error.to_string())?;
        for (who, bytes) in [
            ("an in-network", &by_box),
            ("a fabric", &by_fabric),
            ("a gRPC", &profile.view().text().to_vec()),
        ] {
            if *bytes != by_memcached {
                return Err(format!("{user}: {who} client sees other bytes than a memcached client"));
            }
        }
    }
    Ok(USERS)
}
