//! A connection's turns and debts.

use super::*;

#[test]
fn a_turn_grows_while_the_client_keeps_up_and_shrinks_when_it_does_not() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let buffered = Budget::new(0);
    let wire = Wire::Stream(Stream::over(crate::memcached::socket::Socket::plain(ours.into())));
    let mut connection = Connection::new(wire, Parser::new(1 << 20), 0, Nanos::ZERO);
    for wanted in [16, 32, 64, 128, 200, 200] {
        connection.size_turn(200);
        assert_eq!(connection.turn, wanted);
    }
    connection.submitted = 200;
    let Wire::Stream(stream) = &mut connection.wire else { unreachable!("made above") };
    stream.spill.copy(&vec![0; 4 << 20], &buffered);
    connection.size_turn(200);
    assert_eq!(connection.turn, 50);
    connection.submitted = 2;
    connection.size_turn(200);
    assert_eq!(connection.turn, 1, "there is always progress");
    connection.clear(&buffered);
    connection.size_turn(200);
    assert_eq!(connection.turn, 2);
    (connection.turn, connection.submitted, connection.spent) = (100, 100, 500);
    connection.size_turn(200);
    assert_eq!(connection.turn, 40, "as many as cost what a turn may");
}

#[test]
fn debts_are_paid_before_anything_is_had() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let wire = Wire::Stream(Stream::over(crate::memcached::socket::Socket::plain(ours.into())));
    let mut connection = Connection::new(wire, Parser::new(1 << 20), 0, Nanos::ZERO);
    connection.debt = 250;
    let had: Vec<usize> = (0..4).map(|_| connection.allowance(100)).collect();
    assert_eq!(had, [0, 0, 50, 100]);
}
