//! `millrace wire`: what others need to read the in-network packets.

use std::io::Write as _;

/// The in-network packet, for other programs.
#[derive(clap::Args, Debug)]
pub struct Wire {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Print the dissector for Wireshark and tshark, in Lua
    Dissector,
}

impl Wire {
    /// Prints it.
    ///
    /// # Errors
    /// When standard output is gone.
    pub fn run(&self) -> std::io::Result<()> {
        match self.what {
            What::Dissector => std::io::stdout().write_all(protocol::wire::dissector().as_bytes()),
        }
    }
}
