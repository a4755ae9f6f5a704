//! `millrace rpc list`: services, methods, messages.

use super::RpcError;
use super::descriptions::nearest;
use super::proto_text;
use super::target::Target;
use clap::Args;
use fabric::connection::handshake::ServiceInfo;
use std::fmt::Write;

/// Show what a server serves.
///
/// Services and methods are those that the server named when it was connected to; with --describe the messages too, as a
/// .proto file has them, so that the output can be compiled.
#[derive(Args, Clone, Debug)]
pub struct List {
    #[command(flatten)]
    target: Target,

    /// Only this service: its full name, or the end of it
    #[arg(value_name = "SERVICE")]
    service: Option<String>,

    /// Print everything as .proto text: services, methods, messages, enums
    #[arg(long)]
    describe: bool,
}

impl List {
    /// Runs it.
    ///
    /// # Errors
    /// There is no server, or no such service.
    pub fn run(&self) -> Result<(), RpcError> {
        let mut channel = self.target.connect()?;
        let services: Vec<ServiceInfo> = channel.services().to_vec();
        let wanted: Vec<&ServiceInfo> = match &self.service {
            None => services.iter().collect(),
            Some(name) => vec![find(&services, name)?],
        };
        if !self.describe {
            print!("{}", text(&wanted));
            return Ok(());
        }
        let descriptions = self.target.descriptions(&mut channel)?;
        let text = match &self.service {
            None => proto_text::files(descriptions.set())?,
            Some(_) => {
                let name = &wanted[0].name;
                let service = descriptions.service(name);
                let service = service.ok_or_else(|| RpcError::NotDescribed(name.clone()))?;
                proto_text::file(descriptions.set(), descriptions.file_of(service))?
            }
        };
        print!("{text}");
        Ok(())
    }
}

fn find<'a>(services: &'a [ServiceInfo], name: &str) -> Result<&'a ServiceInfo, RpcError> {
    let is = |service: &&ServiceInfo| {
        service.name == name || service.name.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
    };
    services.iter().find(is).ok_or_else(|| {
        let all: Vec<String> = services.iter().map(|service| service.name.clone()).collect();
        RpcError::NoService { name: name.to_owned(), nearest: nearest(name, &all) }
    })
}

/// One line per method, below the service with its schema's hash.
fn text(services: &[&ServiceInfo]) -> String {
    let mut out = String::new();
    for service in services {
        let hash = service.hash;
        writeln!(out, "{}  schema {hash:016x}", service.name).expect("a string takes any text");
        for method in &service.methods {
            let kind = match (method.client_streaming, method.server_streaming) {
                (false, false) => "",
                (false, true) => "  server stream",
                (true, false) => "  client stream",
                (true, true) => "  streams both ways",
            };
            writeln!(out, "  {}/{}{kind}", service.name, method.name).expect("a string takes any text");
        }
    }
    out
}
