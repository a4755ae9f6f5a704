//! `millrace chain unclaim`: an operator says that a home, and the boxes before it, are no more.

use super::error::ChainError;
use super::status::Whom;
use crate::txn::{Client, Options};
use clap::Args;
use protocol::chain::Claim;

/// Give up the claim of a home with boxes, so that transactions may go to the chain directly again.
///
/// Only where that home has ended: its boxes may go on giving what is written over from then on, until their leases are over. A home that runs
/// stops serving when it finds that its claim is gone; one that starts claims the chain itself.
///
/// Exit status: 0 if there is no claim any more, 1 if another home claimed the chain meanwhile, 5 if nobody answers.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "Example:\n  millrace chain unclaim --connect tcp:127.0.0.1:7401")]
pub struct Unclaim {
    #[command(flatten)]
    whom: Whom,
}

impl Unclaim {
    /// Gives up the claim that there is.
    ///
    /// # Errors
    /// Nobody answers, or there is another claim by then.
    pub fn run(&self) -> Result<(), ChainError> {
        let mut client = Client::connect(self.whom.addresses(), &Options::default()).map_err(failed)?;
        let Some((version, claim)) = client.claim().map_err(failed)? else {
            println!("nobody has claimed this chain");
            return Ok(());
        };
        let outcome = client.execute(Claim::give_up(version)).map_err(failed)?;
        client.close();
        if outcome.abort.is_some() {
            return Err(ChainError::Claim(
                "another home has claimed the chain since: look at `millrace chain status`".to_owned(),
            ));
        }
        println!("given up: {claim}");
        Ok(())
    }
}

fn failed(error: crate::txn::TxnError) -> ChainError {
    ChainError::Claim(error.to_string())
}
