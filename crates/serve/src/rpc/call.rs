//! `millrace rpc call`: one call by hand, JSON in and out.

use super::RpcError;
use super::descriptions::Described;
use super::json::{self, Style};
use super::target::Target;
use crate::process::parse::duration;
use crate::process::tls::TlsClientArgs;
use clap::Args;
use codec::schema::Types;
use fabric::channel::{CallId, CallOptions, Channel, Method, StartError, What};
use fabric::frame::{metadata, push_metadata};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Call a method: JSON in, JSON out.
///
/// The messages' fields are as protobuf's JSON mapping has them: names in camelCase or as in the .proto file, 64-bit numbers as
/// strings or numbers, bytes in base64. A method that takes a stream gets all JSON objects of the input, one after the other; of one
/// that answers with a stream each message is a line.
///
/// Exit status: 0 for a reply, 64 and the number of the status for a call that ended with one (68 for DEADLINE_EXCEEDED), else 1.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    millrace rpc call shm:/tmp/demo.sock demo.Echo/Say -d '{\"text\": \"hello\"}'\n  \
    millrace rpc call tcp:127.0.0.1:7000 Echo/Count -d '{\"to\": 3}'\n  \
    printf '{\"value\": 1} {\"value\": 2}' | millrace rpc call unix:/tmp/demo.unix Echo/Sum -d @-\n  \
    millrace rpc call udp:127.0.0.1:7000 shop.Cart/Add --proto cart.proto -I proto -d @item.json -H tenant:blue --timeout 50ms")]
pub struct Call {
    #[command(flatten)]
    tls: TlsClientArgs,

    #[command(flatten)]
    target: Target,

    /// The method: shop.Cart/Add, Cart/Add, or Add where only one service has it
    #[arg(value_name = "METHOD")]
    method: String,

    /// The request as JSON; @FILE reads a file, @- standard input. Without it the request is empty
    #[arg(short, long, value_name = "JSON")]
    data: Option<String>,

    /// Give the call up after this time
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "10s")]
    timeout: Duration,

    /// Metadata to send along, as key:value. May be repeated
    #[arg(short = 'H', long = "header", value_name = "KEY:VALUE")]
    headers: Vec<String>,

    /// Print replies on one line each
    #[arg(long, help_heading = "Output")]
    compact: bool,

    /// Print fields that have their default, too
    #[arg(long, help_heading = "Output")]
    defaults: bool,

    /// Print the metadata that came with the reply, on standard error
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
}

impl Call {
    /// Runs it.
    ///
    /// # Errors
    /// The call failed, or could not be made.
    pub fn run(&self) -> Result<(), RpcError> {
        self.tls.apply().map_err(RpcError::Server)?;
        let mut encoded = Vec::new();
        for header in &self.headers {
            let pair = header.split_once(':');
            let pushed = pair.is_some_and(|(key, value)| {
                push_metadata(&mut encoded, &key.trim().to_lowercase(), value.trim().as_bytes())
            });
            if !pushed {
                return Err(RpcError::Header(header.clone()));
            }
        }
        let mut channel = self.target.connect()?;
        let described = self.target.descriptions(&mut channel)?.method(&self.method)?;
        let path = format!("/{}", described.path);
        let method = channel.method(&path).ok_or_else(|| RpcError::NotServed(path.clone()))?;
        let options =
            CallOptions { timeout: Some(self.timeout), metadata: &encoded, ..CallOptions::default() };
        if method.is_client_streaming() != described.method.client_streaming
            || method.is_server_streaming() != described.method.server_streaming
        {
            return Err(RpcError::OtherShape(path));
        }
        Conversation { call: self, described, channel }.hold(method, &options)
    }
}

/// A call under way.
struct Conversation<'c> {
    call: &'c Call,
    described: Described,
    channel: Channel,
}

impl Conversation<'_> {
    fn hold(&mut self, method: Method, options: &CallOptions<'_>) -> Result<(), RpcError> {
        let types = Arc::clone(&self.described.types);
        let source = json::source(self.call.data.as_deref().unwrap_or(""))?;
        let mut messages = json::read(source, &types, self.described.method.input);
        if method.is_client_streaming() {
            let call = self.retry(|channel| channel.start(method, options, 0, &[]))?;
            let mut over = false;
            while !over && let Some(message) = messages.next().transpose()? {
                over = self.send(call, &message)?;
            }
            if !over {
                over = self.finish(call)?;
            }
            return if over { Ok(()) } else { self.take_until_over() };
        }
        let body = messages.next().transpose()?.unwrap_or_default();
        if messages.next().is_some() {
            return Err(RpcError::OneMessage(self.described.path.clone()));
        }
        self.retry(|channel| channel.start(method, options, 0, &body))?;
        self.take_until_over()
    }

    fn retry<T>(
        &mut self,
        mut step: impl FnMut(&mut Channel) -> Result<T, StartError>,
    ) -> Result<T, RpcError> {
        loop {
            match step(&mut self.channel) {
                Err(StartError::Full) => {
                    self.take()?;
                }
                other => return other.map_err(|error| RpcError::Status(error.into())),
            }
        }
    }

    /// Sends a message of the stream, printing what comes meanwhile; true if the call is over.
    fn send(&mut self, call: CallId, body: &[u8]) -> Result<bool, RpcError> {
        loop {
            match self.channel.send(call, body) {
                Err(StartError::Full) if self.take()? => return Ok(true),
                Err(StartError::Full) => {}
                // Its outcome is on its way.
                Err(StartError::Ended) => return Ok(false),
                other => return other.map(|()| false).map_err(|error| RpcError::Status(error.into())),
            }
        }
    }

    /// Ends the stream; true if the call is over.
    fn finish(&mut self, call: CallId) -> Result<bool, RpcError> {
        loop {
            match self.channel.finish(call) {
                Err(StartError::Full) if self.take()? => return Ok(true),
                Err(StartError::Full) => {}
                Err(StartError::Ended) => return Ok(false),
                other => return other.map(|()| false).map_err(|error| RpcError::Status(error.into())),
            }
        }
    }

    fn take_until_over(&mut self) -> Result<(), RpcError> {
        while !self.take()? {}
        Ok(())
    }

    /// Waits for events and prints them; true if the call is over.
    fn take(&mut self) -> Result<bool, RpcError> {
        let Described { types, method, .. } = &self.described;
        let one_line = self.call.compact || method.server_streaming;
        let style = Style { one_line, defaults: self.call.defaults };
        let verbose = self.call.verbose;
        let mut result = Ok(false);
        let count = self.channel.poll(64, |event| {
            if result.is_err() {
                return;
            }
            if verbose {
                print_metadata(event.metadata());
            }
            result = match &event.what {
                What::Item(body) => print(body, types, method.output, style).map(|()| false),
                What::Reply(body) => print(body, types, method.output, style).map(|()| true),
                What::End => Ok(true),
                What::Failed(status) => Err(RpcError::Status(status.clone())),
            };
        });
        if count == 0 {
            self.channel.wait(ring::wait::WaitPolicy::default(), Some(Duration::from_secs(1)));
        }
        result
    }
}

fn print(body: &[u8], types: &Types, class: u32, style: Style) -> Result<(), RpcError> {
    let text = json::write(body, types, class, style)?;
    writeln!(io::stdout().lock(), "{text}").map_err(RpcError::Output)
}

fn print_metadata(encoded: &[u8]) {
    for (key, value) in metadata(encoded) {
        crate::complain!("{key}: {}", String::from_utf8_lossy(value));
    }
}
