//! Who takes part, and what all of them get from the program.

mod folder;
mod iceoryx2;
mod millrace;
mod tonic;

use std::fmt;

use clap::ValueEnum;

use crate::Contest;
use crate::sample::Client;
use crate::server::Serve;

pub use folder::Folder;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum System {
    /// The fabric over shared memory.
    MillraceShm,
    /// tonic over a Unix socket.
    TonicUnix,
    /// tonic over TCP on the loopback interface.
    TonicTcp,
    /// iceoryx2, request and response.
    #[value(name = "iceoryx2-calls")]
    IceoryxCalls,
    /// iceoryx2, one topic there and one back.
    #[value(name = "iceoryx2-topics")]
    IceoryxTopics,
}

impl System {
    /// Everyone, in the table's order.
    pub const ALL: [System; 5] = [
        System::MillraceShm,
        System::TonicUnix,
        System::TonicTcp,
        System::IceoryxCalls,
        System::IceoryxTopics,
    ];

    /// Whom the others are compared with.
    pub const OURS: System = System::MillraceShm;

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            System::MillraceShm => "millrace-shm",
            System::TonicUnix => "tonic-unix",
            System::TonicTcp => "tonic-tcp",
            System::IceoryxCalls => "iceoryx2-calls",
            System::IceoryxTopics => "iceoryx2-topics",
        }
    }

    /// Most calls it can have in flight, of those that are asked for.
    pub fn takes(self, window: usize) -> bool {
        self != System::IceoryxTopics || window == 1
    }

    /// Its server, in the server's process.
    pub fn server(self, folder: &Folder, contest: &Contest) -> Result<Box<dyn Serve>, String> {
        Ok(match self {
            System::MillraceShm => Box::new(millrace::Server::new(folder)?),
            System::TonicUnix => Box::new(tonic::Server::unix(folder)?),
            System::TonicTcp => Box::new(tonic::Server::tcp()?),
            System::IceoryxCalls => Box::new(iceoryx2::calls::Server::new(folder, contest)?),
            System::IceoryxTopics => Box::new(iceoryx2::topics::Server::new(folder, contest)?),
        })
    }

    /// A client of the server at `address`, which serves meanwhile.
    pub fn client(
        self,
        address: &str,
        folder: &Folder,
        contest: &Contest,
    ) -> Result<Box<dyn Client>, String> {
        Ok(match self {
            System::MillraceShm => Box::new(millrace::Client::connect(address, contest)?),
            System::TonicUnix | System::TonicTcp => Box::new(tonic::Client::connect(address, contest)?),
            System::IceoryxCalls => Box::new(iceoryx2::calls::Client::open(folder, contest)?),
            System::IceoryxTopics => Box::new(iceoryx2::topics::Client::open(folder, contest)?),
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
