//! A service and its caller, with stubs that the build script made.

use fabric::channel::{CallOptions, Channel};
use fabric::server::Server;
use fabric::stub::{Context, Status};
use proto::demo::{Echo, EchoClient, EchoServer, SayReplyMut, SayRequestView};
use std::sync::atomic::{AtomicBool, Ordering};

mod proto {
    codec::include_proto!("demo");
}

/// Within the process.
const ADDRESS: &str = "memory:stub-build";

struct Same;

impl Echo for Same {
    fn say(&self, request: SayRequestView<'_>, reply: &mut SayReplyMut<'_, '_>, _: &mut Context<'_>) -> Result<(), Status> {
        Ok(reply.set_text(request.text())?)
    }
}

fn say(text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut channel = Channel::connect(&ADDRESS.parse()?, &Default::default())?;
    let client = EchoClient::new(&channel)?;
    let reply = client.say(&mut channel, &CallOptions::default(), |request| request.set_text(text))?;
    Ok(reply.view().text().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut server = Server::new(Default::default()).service(EchoServer::new(Same)).listen(&ADDRESS.parse()?)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(Default::default(), &stop));
        let said = say("hello");
        stop.store(true, Ordering::Relaxed);
        println!("{}", said?);
        Ok(())
    })
}
