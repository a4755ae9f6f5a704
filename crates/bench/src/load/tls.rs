//! A server that is asked over TLS, as a transport.

use super::target::{Transport, connect_tcp};
use base::tls::{ClientTls, Session, SessionError, TlsError};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

/// How long a handshake may wait for the server.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// See the head of the file.
pub struct TlsStream {
    stream: TcpStream,
    session: Session,
    /// Bytes of the caller's that TLS holds, and of which it is not told before the socket has taken all of them: nobody flushes.
    sealed: usize,
    /// Came with others for which there was room.
    plain: Vec<u8>,
}

impl TlsStream {
    /// To the server at HOST:PORT, whose certificate must be for HOST. The handshake is over then.
    ///
    /// # Errors
    /// The system's; `InvalidData` where the server is not believed, or does not speak TLS.
    pub fn connect(address: &str, trust: Option<&ClientTls>) -> io::Result<TlsStream> {
        let invalid = |error: TlsError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let trust = trust.ok_or_else(|| invalid(TlsError::NobodyBelieved))?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut session = Session::client(trust, host).map_err(invalid)?;
        let mut stream = connect_tcp(address)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        let mut plain = Vec::new();
        session.shake_hands(&mut stream, |bytes| {
            plain.extend_from_slice(bytes);
            true
        })?;
        stream.set_nonblocking(true)?;
        Ok(TlsStream { stream, session, sealed: 0, plain })
    }
}

/// Sends as much as the socket takes.
fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<usize> {
    let mut stream = stream;
    let mut sent = 0;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => (sent, bytes) = (sent + count, &bytes[count..]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

impl Transport for TlsStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = &self.stream;
        if self.sealed == 0 {
            self.sealed = self.session.write(&[bytes], |bytes| send(stream, bytes))?;
        } else {
            self.session.flush(|bytes| send(stream, bytes))?;
        }
        if self.sealed == 0 || self.session.unsent() > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(std::mem::take(&mut self.sealed))
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.plain.len().min(room.len());
        room[..filled].copy_from_slice(&self.plain[..filled]);
        self.plain.drain(..filled);
        while filled == 0 {
            let (mut stream, rest) = (&self.stream, &mut self.plain);
            let received = self.session.read(
                |room| stream.read(room),
                |bytes| {
                    let (fitting, more) = bytes.split_at(bytes.len().min(room.len() - filled));
                    room[filled..filled + fitting.len()].copy_from_slice(fitting);
                    filled += fitting.len();
                    rest.extend_from_slice(more);
                    true
                },
            );
            if received.map_err(|error: SessionError| io::Error::from(error))?.is_end {
                break;
            }
        }
        Ok(filled)
    }

    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use base::tls::ServerFiles;
    use base::tls::testing::Authority;
    use serve::kv::Server;
    use serve::kv::config::Config;
    use serve::process::tls::TlsClientArgs;
    use tempfile::TempDir;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        tls: TlsClientArgs,
    }

    fn flags(words: &[&str]) -> TlsClientArgs {
        let words = std::iter::once(&"bench").chain(words);
        <Flags as clap::Parser>::parse_from(words).tls
    }

    #[test]
    fn a_server_is_asked_over_tls_if_it_is_believed() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let authority = Authority::new(folder.path(), "ca");
        let made = authority.issue("server");
        let mut config = Config::default();
        config.listen.tcp.clear();
        config.listen.tls = vec!["127.0.0.1:0".parse().expect("an address")];
        config.tls = Some(ServerFiles { cert: made.cert, key: made.key, ..ServerFiles::default() });
        let server = Server::start(&config).expect("a free port");
        let target: Target = format!("tls:{}", server.tls()[0]).parse().expect("a target");
        let nobody = target.trusting(&flags(&[])).expect_err("nobody is believed");
        assert!(nobody.contains("--tls-ca FILE"), "{nobody}");
        let file = authority.file();
        let believing = flags(&["--tls-ca", file.to_str().expect("a path")]);
        let mut transport = target.trusting(&believing).expect("a good file").connect().expect("a handshake");
        // More than the socket takes at once: the transport says when to go on, and loses nothing.
        let value = vec![b'x'; 1_000_000];
        let request = [b"set k 0 0 1000000\r\n", &value[..], b"\r\nget k\r\n"].concat();
        let wanted = [b"STORED\r\nVALUE k 0 1000000\r\n", &value[..], b"\r\nEND\r\n"].concat();
        let (mut sent, mut heard, mut room) = (0, Vec::new(), [0; 4096]);
        while heard.len() < wanted.len() {
            if sent < request.len()
                && let Ok(count) = transport.send(&request[sent..])
            {
                sent += count;
            }
            match transport.receive(&mut room) {
                Ok(0) => panic!("it ended"),
                Ok(count) => heard.extend_from_slice(&room[..count]),
                Err(_) => std::thread::yield_now(),
            }
        }
        assert!(heard == wanted);
        let other = Authority::new(folder.path(), "other").file();
        let stranger = flags(&["--tls-ca", other.to_str().expect("a path")]);
        let refused = target.trusting(&stranger).expect("a good file").connect().err().expect("not believed");
        assert!(refused.to_string().contains("an authority that is not believed"), "{refused}");
    }
}
