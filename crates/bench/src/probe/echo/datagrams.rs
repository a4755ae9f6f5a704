//! UDP over loopback: the round trip between two threads. What each way costs is in [`super::one_way`].

use super::REQUEST_BYTES;
use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use base::{Clock, Nanos};
use std::io;
use std::net::UdpSocket;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 2;

/// Two sockets on loopback, each connected to the other.
///
/// # Errors
/// The system's: no loopback interface.
pub fn pair() -> io::Result<[UdpSocket; 2]> {
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    sockets[0].connect(sockets[1].local_addr()?)?;
    sockets[1].connect(sockets[0].local_addr()?)?;
    Ok(sockets)
}

/// Round trips, sleeping and spinning.
pub fn measure(session: &mut Session) {
    let Some(at) = session.two_cores() else {
        return session.skip("UDP round trips", "they take two cores, one for each side");
    };
    for (spin, how) in [(false, "blocking"), (true, "spinning")] {
        session.step(format!("UDP round trips, {how}"));
        let label = format!("udp echo of 64 B, {how}");
        match round_trips(spin, session.span(Nanos::from_millis(300)), at) {
            Ok(trips) => {
                let key = format!("udp_{how}");
                session.record(key, label, &trips, Unit::Micros, "one request at a time", "");
            }
            Err(e) => session.skip(label, e),
        }
    }
}

/// Microseconds per round trip; client on `at.0`, server on `at.1`.
fn round_trips(spin: bool, span: Nanos, at: (usize, usize)) -> io::Result<Vec<f64>> {
    let [client, server] = pair()?;
    client.set_nonblocking(spin)?;
    server.set_nonblocking(spin)?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            base::cpu::pin_to(at.1)?;
            let mut room = [0; REQUEST_BYTES];
            // An empty datagram ends it.
            while take(&server, &mut room)? > 0 {
                server.send(&room)?;
            }
            Ok(())
        });
        let trips = cores::on(at.0, || {
            let clock = Clock::shared();
            let (start, mut trips) = (clock.now(), Vec::new());
            let mut room = [1; REQUEST_BYTES];
            while trips.len() < 3 || clock.now().since(start) < span {
                let from = clock.now();
                client.send(&room)?;
                take(&client, &mut room)?;
                trips.push(clock.now().since(from).0 as f64 / 1e3);
            }
            Ok(trips)
        });
        client.send(&[])?;
        let served: io::Result<()> = serving.join().expect("the echo side does not panic");
        served.and(trips?)
    })
}

fn take(socket: &UdpSocket, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(room) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            other => return other,
        }
    }
}
