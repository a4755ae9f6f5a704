//! The smallest service, both sides. `echo.rs` is what `fabric::build` makes of `echo.proto`.
//!
//! ```text
//! cargo run --release -p millrace-fabric --example echo                                   both in one process
//! cargo run --release -p millrace-fabric --example echo serve shm:/tmp/echo.sock          a server …
//! cargo run --release -p millrace-fabric --example echo say shm:/tmp/echo.sock hello      … and its client
//! ```
//! Instead of `shm:` it may be `unix:/path`, `tcp:127.0.0.1:7000` or `udp:127.0.0.1:7000`.

use fabric::channel::{CallOptions, Channel};
use fabric::link::Address;
use fabric::server::Server;
use fabric::service::Context;
use fabric::status::{Code, Status};
use proto::demo::{Echo, EchoClient, EchoServer, SayReplyMut, SayRequestView};
use ring::wait::WaitPolicy;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[allow(clippy::undocumented_unsafe_blocks)]
mod proto {
    include!("echo.rs");
}

struct Repeat;

impl Echo for Repeat {
    fn say(
        &self,
        request: SayRequestView<'_>,
        reply: &mut SayReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        match request.times() {
            times @ 0..=100 => Ok(reply.set_text(&request.text().repeat(times.max(1) as usize))?),
            _ => Err(Status::new(Code::InvalidArgument, "that is too often")),
        }
    }
}

fn serve(address: &Address, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let mut server = Server::new(Default::default()).service(EchoServer::new(Repeat)).listen(address)?;
    server.run(WaitPolicy::default(), stop);
    Ok(())
}

fn say(address: &Address, text: &str) -> Result<String, Box<dyn Error>> {
    let mut channel = Channel::connect(address, &Default::default())?;
    let client = EchoClient::new(&channel)?;
    let options = CallOptions::within(Duration::from_secs(1));
    let reply = client.say(&mut channel, &options, |request| {
        request.set_times(2);
        request.set_text(text)
    })?;
    Ok(reply.view().text().to_owned())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", address] => serve(&address.parse()?, &AtomicBool::new(false)),
        ["say", address, text] => {
            println!("{}", say(&address.parse()?, text)?);
            Ok(())
        }
        [] => both(),
        _ => Err("usage: echo [serve ADDRESS | say ADDRESS TEXT]".into()),
    }
}

fn both() -> Result<(), Box<dyn Error>> {
    let address: Address = "memory:echo".parse()?;
    let mut server = Server::new(Default::default()).service(EchoServer::new(Repeat)).listen(&address)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(WaitPolicy::default(), &stop));
        let said = say(&address, "hello ");
        stop.store(true, Ordering::Relaxed);
        println!("{}", said?);
        Ok(())
    })
}
