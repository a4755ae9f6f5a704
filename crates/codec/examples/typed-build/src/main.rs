//! Builds a message with generated accessors, sends it through the wire format, and reads it.

use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::typed::{Message, MessageView};
use proto::photo::Request;

mod proto {
    codec::include_proto!("photo");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = vec![0xff; 1000];
    let arena = Arena::default();
    let mut request = Request::new(&arena)?;
    request.set_user("ada")?;
    request.lend_image(&image);
    request.insert_labels("place", "London")?;
    request.taken_mut()?.set_seconds(-4_000_000_000);

    let mut encoder = Encoder::default();
    let bytes = request.freeze().encode(&mut encoder)?;

    let mut decoder = Decoder::default();
    let view = Request::decode(&mut decoder, bytes, &arena)?;
    assert_eq!((view.user(), view.image().len(), view.labels().get("place")), ("ada", 1000, Some("London")));
    assert_eq!(view.taken().map(|taken| taken.seconds()), Some(-4_000_000_000));
    println!("{} bytes from {} at entry {} of class {}", bytes.len(), view.user(), Request::IMAGE.entry, Request::IMAGE.class);
    Ok(())
}
