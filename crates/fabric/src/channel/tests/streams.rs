//! Streaming calls: order, windows, ends.

use super::*;
use crate::channel::StartError;

#[test]
fn items_are_handed_out_in_order_and_the_end_last() {
    let (mut channel, mut script) = connected();
    let count = method(&channel, "Count");
    channel.start(count, &PLAIN, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    script.end(call, 3);
    script.item(call, 2, b"c");
    script.item(call, 0, b"a");
    assert_eq!(events(&mut channel, 0), ["1 item a"]);
    script.item(call, 1, b"b");
    assert_eq!(events(&mut channel, 0), ["1 item b", "1 item c", "1 end"]);
    assert_eq!(channel.in_flight(), 0);
}

#[test]
fn credit_follows_what_was_handed_out() {
    let (mut channel, mut script) = connected();
    let count = method(&channel, "Count");
    channel.start(count, &PLAIN, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    let mut granted = WINDOW;
    for number in 0..50 {
        assert!(number < granted, "the stream goes on");
        script.item(call, number, b"");
        assert_eq!(events(&mut channel, 0).len(), 1);
        while let Some((header, _)) = script.hear() {
            assert_eq!((header.kind, header.call), (Kind::Credit, call));
            granted += header.aux;
        }
        assert!(granted <= number + 1 + WINDOW);
    }
}

#[test]
fn explicit_credit_is_all_there_is() {
    let (mut channel, mut script) = connected();
    let count = method(&channel, "Count");
    let call = channel.start(count, &CallOptions { explicit_credit: true, ..PLAIN }, 1, b"").expect("room");
    let number = script.hear_a(Kind::Request).call;
    (0..WINDOW).for_each(|item| script.item(number, item, b""));
    assert_eq!(events(&mut channel, 0).len() as u32, WINDOW);
    assert!(script.hear().is_none());
    channel.grant(call, 2);
    events(&mut channel, 0);
    assert_eq!(script.hear_a(Kind::Credit).aux, 2);
}

#[test]
fn a_client_stream_keeps_to_its_window() {
    let (mut channel, mut script) = connected();
    let sum = method(&channel, "Sum");
    assert_eq!(channel.start(sum, &PLAIN, 1, b"a body"), Err(StartError::Shape));
    let call = channel.start(sum, &PLAIN, 1, b"").expect("room");
    let number = script.hear_a(Kind::Request).call;
    (0..WINDOW).for_each(|_| channel.send(call, b"x").expect("within the window"));
    assert_eq!(channel.send(call, b"x"), Err(StartError::Full));
    script.say(Header { aux: 1, ..Header::new(Kind::Credit, number) }, &[]);
    events(&mut channel, 0);
    channel.send(call, b"x").expect("credit came");
    channel.finish(call).expect("room");
    assert_eq!(
        (channel.send(call, b"x"), channel.finish(call)),
        (Err(StartError::Ended), Err(StartError::Ended))
    );
    assert!((0..=WINDOW).all(|item| script.hear_a(Kind::Item).aux == item));
    assert_eq!(script.hear_a(Kind::Finish).aux, WINDOW + 1);
    script.reply(number, b"5");
    assert_eq!(events(&mut channel, 0), ["1 reply 5"]);
    assert_eq!(channel.send(call, b"x"), Err(StartError::Ended));
    // Credit that the Reply overtook is nobody's.
    script.say(Header { aux: 1, ..Header::new(Kind::Credit, number) }, &[]);
    assert!(events(&mut channel, 0).is_empty() && channel.end().is_none());
}

#[test]
fn both_sides_stream_until_the_server_ends_it() {
    let (mut channel, mut script) = connected();
    let chat = method(&channel, "Chat");
    let call = channel.start(chat, &PLAIN, 1, b"").expect("room");
    let number = script.hear_a(Kind::Request).call;
    channel.send(call, b"hello").expect("room");
    channel.flush();
    assert_eq!(script.hear_a(Kind::Item).aux, 0);
    script.item(number, 0, b"hi");
    script.end(number, 1);
    assert_eq!(events(&mut channel, 0), ["1 item hi", "1 end"]);
    assert_eq!(channel.finish(call), Err(StartError::Ended));
}

#[test]
fn a_cancelled_stream_is_counted_to_its_end() {
    let (mut channel, mut script) = connected();
    let count = method(&channel, "Count");
    let call = channel.start(count, &PLAIN, 1, b"").expect("room");
    let number = script.hear_a(Kind::Request).call;
    script.item(number, 1, b"early");
    assert!(events(&mut channel, 0).is_empty());
    channel.cancel(call);
    assert_eq!(events(&mut channel, 0), ["1 failed CANCELLED"]);
    script.end(number, 3);
    script.item(number, 0, b"");
    assert!(events(&mut channel, 0).is_empty());
    assert_eq!(channel.in_flight(), 1, "an item is still to come");
    script.item(number, 2, b"");
    assert!(events(&mut channel, 0).is_empty());
    assert_eq!(channel.in_flight(), 0);
}
