//! The generator's output for `tests/proto`, committed in `tests/generated`, and what its accessors do.
//!
//! `MILLRACE_BLESS=1 cargo test -p millrace-codec --test generated` writes the files anew.

use codec::crossing::Shared;
use codec::decode::Decoder;
use codec::encode::{Encoder, Strategy};
use codec::memory::{Arena, Memory, Place};
use codec::object::dynamic::{DynamicMut, Value};
use codec::place::{Accelerator, BytesTarget, Copies, FieldUnit, Live, Options, Placed, TextField};
use codec::typed::{Message, MessageView, Owned};
use codec::unit::{self, Kernel, KernelError};
use proto::gallery::{Awkward, Color, Photo, User, UserMut, photo::Format, user::Contact};
use proto::legacy::{Album, album};
use std::sync::Arc;

mod proto {
    include!("generated/gallery.rs");
}

#[cfg(not(miri))]
#[test]
fn the_committed_files_are_what_the_generator_writes() {
    use std::{fs, path::Path};
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let committed = tests.join("generated");
    let bless = std::env::var_os("MILLRACE_BLESS").is_some();
    let fresh =
        if bless { committed.clone() } else { Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated") };
    fs::create_dir_all(&fresh).expect("a folder");
    let proto = tests.join("proto");
    let config = codec::build::Config::new().include(&proto).out_dir(&fresh);
    config.compile(&[proto.join("gallery.proto")]).expect("the files are right");
    for file in ["gallery.rs", "gallery.desc"] {
        let same = fs::read(committed.join(file)).ok() == fs::read(fresh.join(file)).ok();
        assert!(same, "tests/generated/{file} is not what the generator writes: run with MILLRACE_BLESS=1");
    }
}

fn fill(user: &mut UserMut) -> Result<(), codec::memory::OutOfMemory> {
    user.set_name("ada")?;
    user.set_id(7);
    user.set_age(0);
    user.set_avatar(&[1, 2, 3])?;
    let mut cover = user.cover_mut()?;
    cover.set_title("cover")?;
    cover.size_mut()?.set_width(640);
    cover.set_format(Format::FORMAT_PNG);
    for title in ["one", "two", "three"] {
        user.push_photos()?.set_title(title)?;
    }
    user.photos_mut(1).set_pixels(b"pixels")?;
    user.push_tags("red")?;
    user.push_tags("green")?;
    user.set_scores(&[3, -1, 4])?;
    user.push_scores(-1)?;
    user.scores_mut()?[0] = 30;
    user.set_flags(&[true, false])?;
    user.push_flags(true)?;
    user.push_colors(Color::BLUE)?;
    user.insert_labels("k", "v")?;
    user.insert_labels("k", "w")?;
    user.albums_mut().message_mut(-5)?.set_title("fifth")?;
    user.insert_moods(true, Color::GREEN)?;
    user.set_email("a@b")?;
    user.set_favourite(Color::BLUE);
    user.set_active(true);
    user.set_ratio(0.5);
    user.push_blobs(b"")?;
    user.push_views(1)?;
    user.album_mut()?.set_title("best of")?;
    user.friend_mut()?.friend_mut()?.set_name("friend of a friend")
}

#[test]
fn what_was_set_is_read_and_survives_the_wire() {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("memory");
    fill(&mut user).expect("memory");
    let built = user.freeze();
    let mut encoder = Encoder::default();
    let bytes = built.encode(&mut encoder).expect("encoded").to_vec();
    let mut decoder = Decoder::default();
    let decoded = User::decode(&mut decoder, &bytes, &arena).expect("decoded");
    assert_eq!(built.dynamic(), decoded.dynamic());
    for user in [built, decoded] {
        assert_eq!((user.name(), user.id(), user.age(), user.has_age()), ("ada", 7, 0, true));
        assert_eq!((user.avatar(), user.avatar_is_in_acc()), (&[1, 2, 3][..], false));
        let cover = user.cover().expect("a cover");
        assert_eq!((cover.title(), cover.format()), ("cover", Format::FORMAT_PNG));
        assert_eq!(cover.size().map(|size| (size.width(), size.height())), Some((640, 0)));
        let titles: Vec<&str> = user.photos().iter().map(|photo| photo.title()).collect();
        assert_eq!(titles, ["one", "two", "three"]);
        assert_eq!(user.photos().get(1).map(|photo| photo.pixels()), Some(&b"pixels"[..]));
        assert_eq!(user.photos().get(3).map(|photo| photo.pixels()), None);
        assert!(user.tags().iter().eq(["red", "green"]));
        assert_eq!(user.scores(), [30, -1, 4, -1]);
        assert!(user.flags().iter().eq([true, false, true]));
        assert_eq!((user.colors(), user.favourite()), (&[Color::BLUE][..], Color::BLUE));
        assert_eq!(
            (user.labels().len(), user.labels().get("k"), user.labels().get("v")),
            (1, Some("w"), None)
        );
        assert_eq!(user.albums().get(-5).map(|photo| photo.title()), Some("fifth"));
        assert!(user.moods().iter().eq([(true, Color::GREEN)]));
        assert!(matches!(user.contact(), Some(Contact::Email("a@b"))));
        assert!(user.active() && user.ratio() == 0.5 && user.part() == 0.0 && !user.has_sure());
        assert!(user.blobs().iter().eq([b""]));
        let friend = user.friend().and_then(|friend| friend.friend());
        assert_eq!(friend.map(|friend| friend.name()), Some("friend of a friend"));
        assert_eq!(user.album().map(|album| album.title().to_str()), Some(Ok("best of")));
    }
    let shown = format!("{built:?}");
    assert!(shown.starts_with("gallery.User { name: Str(\"ada\"), id: U64(7)"), "{shown}");
}

#[test]
fn typed_and_dynamic_agree() {
    let arena = Arena::default();
    let mut typed = User::new(&arena).expect("memory");
    fill(&mut typed).expect("memory");
    let typed = typed.freeze();
    let mut copy = DynamicMut::new(proto::types(), User::CLASS, &arena).expect("memory");
    for (field, value) in typed.dynamic().fields() {
        copy.set(field, value).expect("a value of the field");
    }
    assert_eq!(copy.as_dynamic(), typed.dynamic());
    copy.set("name", Value::Str("grace")).expect("a string");
    assert_ne!(copy.as_dynamic(), typed.dynamic());
    assert_eq!(copy.set("name", Value::I32(1)), Err(codec::object::dynamic::SetError::Kind));
    let message = copy.freeze();
    // SAFETY: made as this class.
    let view = unsafe { User::view(message.view()) };
    assert_eq!((view.name(), view.scores()), ("grace", typed.scores()));
    assert_eq!(message.get(2), Some(Value::U64(7)));
}

#[test]
fn a_oneof_has_one_member() {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("memory");
    assert!(user.as_view().contact().is_none());
    user.set_phone(5);
    assert!(matches!(user.as_view().contact(), Some(Contact::Phone(5))));
    assert_eq!((user.as_view().email(), user.as_view().meeting().is_none()), ("", true));
    user.meeting_mut().expect("memory").set_x(1.5);
    assert!(matches!(user.as_view().contact(), Some(Contact::Meeting(point)) if point.x() == 1.5));
    assert!(!user.as_view().has_phone() && user.as_view().phone() == 0);
    user.set_key(b"key").expect("memory");
    user.set_lamp(Color::BLUE);
    user.clear_key();
    assert!(matches!(user.as_view().contact(), Some(Contact::Lamp(Color::BLUE))));
    user.set_none(true);
    user.clear_contact();
    assert!(user.as_view().contact().is_none() && !user.as_view().has_none());
}

#[test]
fn defaults_of_proto2() {
    let arena = Arena::default();
    let mut album = Album::new(&arena).expect("memory");
    let view = album.as_view();
    assert_eq!((view.limit(), view.has_limit()), (-7, false));
    assert_eq!((view.owner().to_str(), view.mark()), (Ok("no \"one\"\n"), &b"\0\xffx"[..]));
    assert_eq!((view.kind(), view.first()), (album::Kind::PUBLIC, album::Kind::PRIVATE));
    assert!(view.share() == f64::INFINITY && view.change().is_nan() && view.open());
    assert_eq!(view.most(), u64::MAX);
    album.set_limit(0);
    album.set_open(false);
    album.place_mut().expect("memory").set_city("Rome").expect("memory");
    album.insert_by_name("a", album::Rank::HIGH).expect("memory");
    let view = album.as_view();
    assert_eq!((view.limit(), view.open()), (0, false));
    assert!(view.place().is_some_and(|place| place.city() == "Rome"));
    assert_eq!(view.by_name().get("a"), Some(album::Rank::HIGH));
    album.clear_limit();
    assert_eq!(album.as_view().limit(), -7);
}

#[test]
fn names_that_rust_wants_for_itself() {
    let arena = Arena::default();
    let mut awkward = Awkward::new(&arena).expect("memory");
    awkward.set_type("t").expect("memory");
    awkward.set_self(1);
    awkward.set_match(true);
    awkward.set_x(2);
    awkward.push_clone(3).expect("memory");
    awkward.set_as(4);
    let view = awkward.freeze();
    assert_eq!((view.r#type(), view.self_(), view.r#match(), view.x()), ("t", 1, true, 2));
    assert_eq!((view.has_x(), view.has_x_(), view.clone()), (false, true, &[3][..]));
    assert!(matches!(view.set(), Some(proto::gallery::awkward::Set::As(4))));
}

#[test]
fn what_is_lent_is_not_copied() {
    let bytes = vec![7; 1000];
    let arena = Arena::default();
    let mut photo = Photo::new(&arena).expect("memory");
    photo.lend_pixels(&bytes);
    photo.lend_title("for ever");
    let photo = photo.freeze();
    assert_eq!(photo.pixels().as_ptr(), bytes.as_ptr());
    assert_eq!(photo.title(), "for ever");
}

#[test]
fn lists_shrink() {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("memory");
    fill(&mut user).expect("memory");
    user.remove_photos(0).expect("memory");
    user.remove_tags(1).expect("memory");
    user.truncate_scores(1);
    user.truncate_flags(0);
    user.clear_colors();
    assert!(user.albums_mut().remove(-5).expect("memory"));
    let view = user.as_view();
    assert!(view.photos().iter().map(|photo| photo.title()).eq(["two", "three"]));
    assert!(view.tags().iter().eq(["red"]) && view.flags().is_empty() && view.colors().is_empty());
    assert_eq!((view.scores(), view.albums().len()), (&[30][..], 0));
    assert!(!view.dynamic().has("flags") && !view.dynamic().has("albums") && view.dynamic().has("scores"));
}

#[test]
fn a_decoded_message_can_be_changed() {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("memory");
    fill(&mut user).expect("memory");
    let mut encoder = Encoder::default();
    let bytes = user.as_view().encode(&mut encoder).expect("encoded").to_vec();
    let mut decoder = Decoder::default();
    let mut user = User::decode_mut(&mut decoder, &bytes, &arena).expect("decoded");
    user.set_name("grace").expect("memory");
    user.cover_mut().expect("memory").set_title("new").expect("memory");
    user.insert_labels("k", "x").expect("memory");
    user.push_scores(9).expect("memory");
    let view = user.as_view();
    assert_eq!((view.name(), view.labels().get("k")), ("grace", Some("x")));
    assert_eq!(view.cover().map(|cover| cover.title()), Some("new"));
    assert_eq!(view.scores(), [30, -1, 4, -1, 9]);
}

#[test]
fn a_placed_message_is_read_and_changed_as_its_class_only() {
    let (host, acc) = (Memory::host(1 << 16).expect("memory"), Memory::acc(1 << 16).expect("memory"));
    let table = Arc::new(proto::types().table().clone());
    let mut message = Placed::new(table, User::CLASS, &host, &acc).expect("memory");
    let mut user = User::placed_mut(&mut message).expect("it is a user");
    user.set_name("ada").expect("memory");
    user.lend_avatar(b"for ever");
    assert!(Photo::placed_mut(&mut message).is_none() && Photo::placed(&message).is_none());
    let user = User::placed(&message).expect("it is a user");
    assert_eq!((user.name(), user.avatar()), ("ada", &b"for ever"[..]));
    assert_eq!((message.is_in_acc(&[User::AVATAR]), user.avatar_is_in_acc()), (false, false));
}

#[test]
fn an_owned_message_outlives_the_bytes_it_came_in() {
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("room");
    fill(&mut user).expect("room");
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let bytes = User::freeze(user).encode(&mut encoder).expect("encodes").to_vec();
    let owned = Owned::<User>::decode(&mut decoder, &bytes).expect("decodes");
    drop((arena, bytes));
    let there = std::thread::spawn(move || {
        assert_eq!(owned.view().name(), "ada");
        assert!(owned.held_bytes() > 0);
        owned
    });
    let owned = there.join().expect("the thread is well");
    assert_eq!(owned.view().photos().iter().count(), 3);
    assert!(Owned::<User>::decode(&mut decoder, b"\xff").is_err());
}

/// Turns every bit.
struct Turn;

impl Kernel for Turn {
    fn kernel_type(&self) -> &'static str {
        "turn"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        output.iter_mut().zip(input).for_each(|(to, from)| *to = !from);
        Ok(input.len())
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len
    }
}

/// Without a unit, so that Miri sees it.
#[test]
fn fields_are_brought_to_the_other_memory_and_back_while_views_of_them_are_about() {
    let live = Arc::new(Live::new(proto::types().table().clone()));
    let options = Options { acc_bytes: 1 << 20, ..Options::default() };
    let crossing = Arc::new(Shared::default());
    let mut accelerator =
        Accelerator::in_this_thread(vec![Arc::clone(&live)], options, crossing).expect("memory");
    let (mut encoder, arena) = (Encoder::default(), Arena::default());
    let mut wires = [Place::Host, Place::Acc].map(|place| {
        let mut user = User::new(&arena).expect("memory");
        user.set_avatar(b"picture").expect("memory");
        (place, User::freeze(user).encode(&mut encoder).expect("encodes").to_vec())
    });
    for (place, wire) in &mut wires {
        live.set_target(User::AVATAR, *place);
        let request = accelerator.receive(User::CLASS, std::mem::take(wire)).expect("a good message");
        let view = User::placed(&request).expect("a user");
        let field = TextField::of(view, User::AVATAR);
        let mut copies = Copies::of(&request);
        for to in [Place::Acc, Place::Host, Place::Acc] {
            copies.bring(&mut accelerator, &field, to).expect("room");
        }
        assert_eq!(copies.host_bytes(&field), Some(&b"picture"[..]));
        assert_eq!(copies.span(&field).map(|span| span.len), Some(7));
        assert_eq!(field.host_bytes().is_some(), *place == Place::Host, "the object stays as it was");

        let mut reply = accelerator.message(User::CLASS).expect("memory");
        let mut edit = User::placed_mut(&mut reply).expect("a user");
        let mut target = BytesTarget::of(&mut edit, User::AVATAR);
        target.set(copies.host_bytes(&field).expect("it was brought")).expect("memory");
        assert!(target.bring_to_host(&mut accelerator).expect("room").is_none(), "it is there");
        drop(copies);
        drop(request);
        assert_eq!(accelerator.move_to_acc(&mut reply, &[User::AVATAR]), Ok(true));
        let mut edit = User::placed_mut(&mut reply).expect("a user");
        let memory = BytesTarget::of(&mut edit, User::AVATAR).bring_to_host(&mut accelerator);
        assert_eq!(edit.as_view().avatar(), b"picture");
        reply.adopt(memory.expect("room").expect("it was in the other memory"));
        assert!(accelerator.send(&reply, Strategy::CpuOnly, 0).is_ok());
        drop(reply);
        assert_eq!(accelerator.memory().occupancy().held, 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a unit's thread sleeps on a futex")]
fn fields_are_brought_and_worked_on_while_views_of_them_are_about() {
    let live = Arc::new(Live::new(proto::types().table().clone()));
    let options = Options { acc_bytes: 1 << 20, ..Options::default() };
    let crossing = Arc::new(Shared::default());
    let mut accelerator =
        Accelerator::in_this_thread(vec![Arc::clone(&live)], options, crossing).expect("memory");
    live.set_target(User::AVATAR, Place::Host);
    let mut encoder = Encoder::default();
    let arena = Arena::default();
    let mut user = User::new(&arena).expect("memory");
    user.set_name("ada").expect("memory");
    user.set_avatar(b"picture").expect("memory");
    let wire = User::freeze(user).encode(&mut encoder).expect("encodes").to_vec();
    let request = accelerator.receive(User::CLASS, wire).expect("a good message");
    let mut reply = accelerator.message(User::CLASS).expect("memory");

    let view = User::placed(&request).expect("a user");
    let field = TextField::of(view, User::AVATAR);
    let mut copies = Copies::of(&request);
    assert_eq!((copies.is_in_acc(&field), copies.span(&field)), (false, None));
    assert_eq!(copies.bring(&mut accelerator, &field, Place::Acc), Ok(true));
    assert_eq!(copies.bring(&mut accelerator, &field, Place::Acc), Ok(false), "it is there");
    assert!(copies.is_in_acc(&field));
    assert_eq!(view.avatar(), b"picture", "the view reads what it did");
    assert_eq!(copies.host_bytes(&field), Some(&b"picture"[..]));
    assert_eq!(live.target(User::AVATAR), Place::Acc, "later messages land there");

    let mut unit = FieldUnit::new("turn", &accelerator, unit::Options::default());
    unit.program(Turn).expect("a thread");
    let results = Arena::new(accelerator.memory());
    let mut edit = User::placed_mut(&mut reply).expect("a user");
    let mut target = BytesTarget::of(&mut edit, User::AVATAR);
    let input = copies.span(&field).expect("it was brought");
    // SAFETY: nobody writes the copy, and the reply takes over the results below.
    let len = unsafe { unit.run_into(input, &mut target, &results, 7) };
    assert_eq!(len, Ok(7));
    assert!(edit.as_view().avatar_is_in_acc());
    reply.adopt(results);
    drop(copies);
    drop(request);

    let sent = accelerator.send(&reply, Strategy::MemoryAffinity, 0).expect("a good message");
    let mut decoder = Decoder::default();
    let sent = User::decode(&mut decoder, &sent, &arena).expect("decodes");
    assert_eq!(sent.avatar(), b"picture".map(|byte| !byte));

    // For a serialiser that reads host memory alone.
    let mut edit = User::placed_mut(&mut reply).expect("a user");
    let mut target = BytesTarget::of(&mut edit, User::AVATAR);
    let memory = target.bring_to_host(&mut accelerator).expect("room").expect("it was not there");
    assert_eq!(edit.as_view().avatar(), b"picture".map(|byte| !byte));
    reply.adopt(memory);
    assert!(accelerator.send(&reply, Strategy::CpuOnly, 0).is_ok());
    drop(reply);
    assert_eq!(accelerator.memory().occupancy().held, 0);

    // A second request lands where the first was moved to.
    let mut user = User::new(&arena).expect("memory");
    user.set_avatar(b"another").expect("memory");
    let wire = User::freeze(user).encode(&mut encoder).expect("encodes").to_vec();
    let request = accelerator.receive(User::CLASS, wire).expect("a good message");
    let field = TextField::of(User::placed(&request).expect("a user"), User::AVATAR);
    assert_eq!(field.host_bytes(), None);
    let mut copies = Copies::of(&request);
    assert_eq!(copies.bring(&mut accelerator, &field, Place::Host), Ok(true));
    assert_eq!(copies.host_bytes(&field), Some(&b"another"[..]));
    let stranger = Owned::<User>::decode(&mut decoder, b"\x22\x01x").expect("decodes");
    assert!(!copies.are_of(&TextField::of(stranger.view(), User::AVATAR)));
}
