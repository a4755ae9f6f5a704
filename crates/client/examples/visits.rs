//! Counts visits and moves points between two names, in a cluster that is found by its file, a controller or etcd.
//!
//! ```text
//! millrace chain up --replicas 3 &
//! cargo run -p millrace-client --example visits -- tcp:127.0.0.1:7401
//! cargo run -p millrace-client --example visits -- cluster.toml              # the cluster's file
//! cargo run -p millrace-client --example visits -- 127.0.0.1:9400            # a controller's admin port
//! cargo run -p millrace-client --example visits -- http://127.0.0.1:2379     # etcd, chain 1
//! ```
//! A write that nobody answered is asked for by its session and number, so that it is known in the end.

use client::{Builder, Cluster, Error};
use protocol::chain::message::Status;
use std::process::ExitCode;

/// Where the cluster is, by what the word looks like.
fn by(place: &str) -> Result<Builder, String> {
    let builder = Cluster::builder();
    Ok(match place {
        file if file.ends_with(".toml") => builder.cluster(file),
        url if url.starts_with("http://") => builder.etcd([url]),
        address if address.split(':').count() == 2 && !address.starts_with("unix:") => {
            builder.controller(address)
        }
        address => builder.replicas([address.parse().map_err(|error| format!("{address}: {error}"))?]),
    })
}

/// The count after one more visit, whatever becomes of the first try.
fn visit(cluster: &mut Cluster) -> Result<i64, Error> {
    match cluster.increment(b"visits", 1) {
        Err(Error::Unknown { id: Some(id), why }) => {
            eprintln!("no answer ({why}); what became of it?");
            match cluster.store()?.status(id)? {
                Status::Done(outcome) => Ok(outcome.sums.first().copied().unwrap_or_default()),
                Status::Unknown | Status::Forgotten => Err(Error::Unknown { id: Some(id), why }),
            }
        }
        counted => counted,
    }
}

fn run(place: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = by(place)?.connect()?;
    println!("visits: {}", visit(&mut cluster)?);
    cluster.add(b"ann", b"10")?;
    let moved = cluster.transaction().expect_at_least("ann", 4).add("ann", -4).add("bob", 4).commit()?;
    match &moved.sums[..] {
        [ann, bob] => {
            println!("ann has {ann}, bob has {bob}; version {}, {} copies", moved.lsn.0, moved.copies)
        }
        _ => println!("ann has less than 4: nothing was done"),
    }
    cluster.close();
    Ok(())
}

fn main() -> ExitCode {
    let Some(place) = std::env::args().nth(1) else {
        eprintln!(
            "say where the cluster is: cluster.toml, HOST:PORT of a controller, http://HOST:PORT of etcd, or tcp:HOST:PORT of a replica"
        );
        return ExitCode::from(2);
    };
    match run(&place) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
