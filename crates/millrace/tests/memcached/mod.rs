//! Debian's memcached as a child process, where it is installed.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use super::served::Client;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// What every memcached is asked that has no users, and how its answer begins.
const VERSION: (&[u8], &[u8]) = (b"version\r\n", b"VERSION ");

/// A running memcached; it is killed when dropped.
pub struct Memcached {
    child: Child,
    address: SocketAddr,
}

impl Memcached {
    /// Starts one with `arguments` on a free port. None, said on standard error, where memcached is not installed.
    pub fn start(arguments: &[&str]) -> Option<Memcached> {
        Memcached::start_in(arguments, &[], &VERSION)
    }

    /// The same with variables of its environment, of one that answers this to that.
    pub fn start_in(
        arguments: &[&str],
        environment: &[(&str, &std::path::Path)],
        probe: &(&[u8], &[u8]),
    ) -> Option<Memcached> {
        for _ in 0..10 {
            // memcached can pick a port itself, but only tells it through a file; a taken one is tried again.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback");
            let port = free.port().to_string();
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-u", "nobody"]).args(arguments);
            command.envs(environment.iter().copied());
            let Ok(child) = command.stderr(Stdio::null()).spawn() else {
                super::served::skip("memcached is not installed");
                return None;
            };
            let mut memcached = Memcached { child, address: free };
            if memcached.answers(probe) {
                return Some(memcached);
            }
        }
        super::served::skip("memcached does not start");
        None
    }

    fn answers(&mut self, probe: &(&[u8], &[u8])) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < super::served::PATIENCE {
            if speaks(self.address, probe) {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            std::thread::yield_now();
        }
        false
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }
}

/// True if memcached answers at `address`. A connection alone proves nothing: one to a free port of the range that clients
/// are given theirs from can meet itself, take the port from memcached, and then reads what it wrote.
fn speaks(address: SocketAddr, (question, answer): &(&[u8], &[u8])) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut said = vec![0; answer.len()];
    let patience = stream.set_read_timeout(Some(super::served::PATIENCE));
    patience.and_then(|()| stream.write_all(question)).and_then(|()| stream.read_exact(&mut said)).is_ok()
        && said == *answer
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
