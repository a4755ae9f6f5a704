//! `millrace rpc list`: services, methods, messages.

use super::RpcError;
use super::descriptions::{Descriptions, nearest};
use super::proto_text;
use super::target::Target;
use crate::process::tls::TlsClientArgs;
use clap::Args;
use codec::schema::{MethodOptions, Order, Place, Places, Schema, Service};
use fabric::connection::handshake::ServiceInfo;
use serde_json::{Value, json};
use std::fmt::Write;

/// Show what a server serves.
///
/// Services and methods are those that the server named when it was connected to, with what they say of themselves (by the options
/// that `millrace rpc options` prints); with --describe the messages too, as a .proto file has them, so that the output can be compiled.
#[derive(Args, Clone, Debug)]
pub struct List {
    #[command(flatten)]
    tls: TlsClientArgs,

    #[command(flatten)]
    target: Target,

    /// Only this service: its full name, or the end of it
    #[arg(value_name = "SERVICE")]
    service: Option<String>,

    /// Print everything as .proto text: services, methods, messages, enums
    #[arg(long)]
    describe: bool,

    /// Print a JSON array instead of text: a service each
    #[arg(long, conflicts_with = "describe")]
    json: bool,
}

impl List {
    /// Runs it.
    ///
    /// # Errors
    /// There is no server, or no such service.
    pub fn run(&self) -> Result<(), RpcError> {
        self.tls.apply().map_err(RpcError::Server)?;
        let mut channel = self.target.connect()?;
        let services: Vec<ServiceInfo> = channel.services().to_vec();
        let wanted: Vec<&ServiceInfo> = match &self.service {
            None => services.iter().collect(),
            Some(name) => vec![find(&services, name)?],
        };
        if !self.describe {
            // A server that does not describe itself has its methods' names shown all the same.
            let described = self.target.descriptions(&mut channel).ok();
            let schema = described.as_ref().map(Descriptions::schema);
            match self.json {
                true => println!("{:#}", json(&wanted, schema)),
                false => print!("{}", text(&wanted, schema)),
            }
            return Ok(());
        }
        let descriptions = self.target.descriptions(&mut channel)?;
        let text = match &self.service {
            None => proto_text::files(&descriptions)?,
            Some(_) => {
                let name = &wanted[0].name;
                let service = descriptions.service(name);
                let service = service.ok_or_else(|| RpcError::NotDescribed(name.clone()))?;
                proto_text::file(&descriptions, descriptions.file_of(service))?
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
fn text(services: &[&ServiceInfo], schema: Option<&Schema>) -> String {
    let mut out = String::new();
    for service in services {
        let hash = service.hash;
        writeln!(out, "{}  schema {hash:016x}", service.name).expect("a string takes any text");
        let described = schema.and_then(|schema| schema.service(&service.name));
        for method in &service.methods {
            let kind = match (method.client_streaming, method.server_streaming) {
                (false, false) => "",
                (false, true) => "  server stream",
                (true, false) => "  client stream",
                (true, true) => "  streams both ways",
            };
            let own = said_of(described, &method.name).join(", ");
            let gap = if own.is_empty() { "" } else { "  " };
            writeln!(out, "  {}/{}{kind}{gap}{own}", service.name, method.name)
                .expect("a string takes any text");
        }
    }
    out
}

/// The same for programs.
fn json(services: &[&ServiceInfo], schema: Option<&Schema>) -> Value {
    let one = |service: &&ServiceInfo| {
        let described = schema.and_then(|schema| schema.service(&service.name));
        let methods = service.methods.iter().map(|method| {
            json!({
                "name": method.name,
                "client_streaming": method.client_streaming,
                "server_streaming": method.server_streaming,
                "says": said_of(described, &method.name),
            })
        });
        json!({
            "service": service.name,
            "schema": format!("{:016x}", service.hash),
            "methods": methods.collect::<Vec<_>>(),
        })
    };
    services.iter().map(one).collect()
}

/// What a method says of itself, if that is known.
fn said_of(service: Option<&Service>, method: &str) -> Vec<String> {
    let said = service.and_then(|service| {
        let own = service.methods.iter().find(|known| known.name == method)?;
        Some(said(service, &own.options))
    });
    said.unwrap_or_default()
}

/// What a method says of itself, in words.
fn said(service: &Service, options: &MethodOptions) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(key) = &options.key {
        words.push(format!("key {}", key.path));
    }
    if let Some(cacheable) = &options.cacheable {
        let writers = cacheable.invalidated_by.iter().map(|&at| service.methods[at as usize].name.as_str());
        let writers = writers.collect::<Vec<_>>().join(" or ");
        let until = if writers.is_empty() { String::new() } else { format!(" or until {writers}") };
        words.push(format!("cacheable for {} s{until}", cacheable.ttl_seconds));
    } else if options.idempotent {
        words.push("idempotent".to_owned());
    }
    match options.order {
        Order::None => {}
        Order::PerKey => words.push("in order per key".to_owned()),
        Order::PerConnection => words.push("in order per connection".to_owned()),
    }
    if options.places != Places::ANY {
        let places = options.places.iter().map(Place::name).collect::<Vec<_>>().join(" or ");
        words.push(format!("on {places}"));
    }
    if options.transaction {
        words.push("transaction".to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::compile::Compiler;

    #[test]
    fn what_methods_say_is_said_in_words() {
        let text = "syntax = \"proto3\"; import \"millrace/options.proto\"; message M { string id = 1; } service S {
            rpc Get(M) returns (M) { option (millrace.key) = \"id\"; option (millrace.cacheable) = { ttl_seconds: 9 invalidated_by: \"Put\" }; }
            rpc Put(M) returns (M) { option (millrace.key) = \"id\"; option (millrace.order) = PER_KEY; option (millrace.transaction) = true; }
            rpc Plain(M) returns (M) { option idempotency_level = IDEMPOTENT; option (millrace.places) = HOST; } rpc None(M) returns (M); }";
        let schema = Compiler::new().source("a.proto", text).compile(&["a.proto"]).expect("a right file");
        let service = schema.service("S").expect("it is declared");
        let lines: Vec<String> =
            service.methods.iter().map(|method| said(service, &method.options).join(", ")).collect();
        assert_eq!(
            lines,
            [
                "key id, cacheable for 9 s or until Put",
                "key id, in order per key, transaction",
                "idempotent, on host",
                "",
            ]
        );
    }
}
