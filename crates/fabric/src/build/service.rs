//! A service as Rust text: its trait, its server, its client, its descriptor.
//!
//! Everything that the text names is in [`crate::stub`] or `codec`, by its full path, so that nothing a .proto file declares is in the
//! way.

use crate::service::schema_hash;
use codec::generate::{MethodSite, ServiceSite, ServiceWriter, Taken, Text};
use codec::schema::{MethodOptions, Places};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Writes all services of a schema.
pub(super) struct Stubs {
    deferred: BTreeSet<String>,
    seen: RefCell<BTreeSet<String>>,
}

impl Stubs {
    pub(super) fn new(deferred: &[String]) -> Stubs {
        let deferred = deferred.iter().cloned().collect();
        Stubs { deferred, seen: RefCell::default() }
    }

    /// Panics if a method was named that is not there.
    pub(super) fn finish(&self) {
        let seen = self.seen.borrow();
        let unknown: Vec<&String> = self.deferred.difference(&seen).collect();
        assert!(
            unknown.is_empty(),
            "deferred: no unary methods {unknown:?}; write \"/package.Service/Method\""
        );
    }
}

impl ServiceWriter for Stubs {
    fn items(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), format!("{name}Server"), format!("{name}Client"), upper(name)]
    }

    fn write(&self, text: &mut Text, site: &ServiceSite<'_>) {
        let methods = site.methods.iter().map(|at| {
            let path = format!("/{}/{}", site.service.name, at.method.name);
            let shape = match (at.method.client_streaming, at.method.server_streaming) {
                (false, false) if self.deferred.contains(&path) => {
                    self.seen.borrow_mut().insert(path.clone());
                    Shape::Deferred
                }
                (false, false) => Shape::Unary,
                (false, true) => Shape::Replies,
                (true, false) => Shape::Requests,
                (true, true) => Shape::Both,
            };
            Method { at, path, shape }
        });
        let methods: Vec<Method<'_>> = methods.collect();
        let [name, server, client, descriptor] = site.items else {
            unreachable!("as many names as were asked for")
        };
        let stub = Stub { site, name, server, client, descriptor, methods };
        stub.descriptor(text);
        text.blank();
        stub.handler(text);
        text.blank();
        stub.server(text);
        text.blank();
        stub.client(text);
    }
}

/// How a method is called and handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Answered before the handler returns.
    Unary,
    /// One request, one reply, later.
    Deferred,
    /// The server streams.
    Replies,
    /// The client streams.
    Requests,
    /// Both stream.
    Both,
}

impl Shape {
    fn is_unary(self) -> bool {
        matches!(self, Shape::Unary | Shape::Deferred)
    }
}

struct Method<'s> {
    at: &'s MethodSite<'s>,
    path: String,
    shape: Shape,
}

/// A service with the names that it got.
struct Stub<'s> {
    site: &'s ServiceSite<'s>,
    name: &'s str,
    server: &'s str,
    client: &'s str,
    descriptor: &'s str,
    methods: Vec<Method<'s>>,
}

const STATUS: &str = "::fabric::stub::Status";
const OPTIONS: &str = "options: &::fabric::stub::CallOptions<'_>";
const CALLER: &str = "channel: &mut impl ::fabric::stub::Caller";

impl Stub<'_> {
    fn descriptor(&self, text: &mut Text) {
        let hash = schema_hash(self.site.schema, self.site.service);
        text.doc(&format!("What is known of `{}` without a peer.", self.site.service.name));
        text.open(&format!(
            "pub static {}: ::fabric::stub::ServiceDescriptor = ::fabric::stub::ServiceDescriptor {{",
            self.descriptor
        ));
        text.line(&format!("name: {:?},", self.site.service.name));
        text.open("methods: &[");
        for method in self.methods.iter().map(|method| method.at.method) {
            text.open("::fabric::stub::MethodDescriptor {");
            text.line(&format!("name: {:?},", method.name));
            text.line(&format!("client_streaming: {},", method.client_streaming));
            text.line(&format!("server_streaming: {},", method.server_streaming));
            options(text, &method.options);
            text.close("},");
        }
        text.close("],");
        text.line(&format!("hash: {hash:#018x},"));
        text.line(&format!("descriptors: {},", self.site.descriptors));
        text.close("};");
    }

    /// The trait that a server implements.
    fn handler(&self, text: &mut Text) {
        let plain = format!("Service `{}`.", self.site.service.name);
        text.doc(self.site.doc.unwrap_or(&plain));
        text.doc(&format!("\nWhat is not implemented answers UNIMPLEMENTED. [`{}`] serves it.", self.server));
        let bounds = "::core::marker::Send + ::core::marker::Sync + 'static";
        if self.site.service.methods.iter().any(|method| method.name.eq_ignore_ascii_case("new")) {
            text.line("#[allow(clippy::new_ret_no_self, clippy::wrong_self_convention)]");
        }
        text.open(&format!("pub trait {}: {bounds} {{", self.name));
        for method in &self.methods {
            text.blank();
            method.doc(text);
            method.handler(text);
        }
        text.close("}");
    }

    fn server(&self, text: &mut Text) {
        let (name, server) = (self.name, self.server);
        text.doc(&format!("Serves an implementation of [`{name}`]."));
        text.line("#[derive(Debug)]");
        text.line(&format!("pub struct {server}<T>(::std::sync::Arc<T>);"));
        text.blank();
        text.open(&format!("impl<T: {name}> {server}<T> {{"));
        text.doc("Serves `handler`.");
        text.open_fn("pub fn new", &["handler: T".into()], &format!("{server}<T>"));
        text.line(&format!("{server}(::std::sync::Arc::new(handler))"));
        text.close("}");
        text.blank();
        text.doc("Serves a handler that others hold too.");
        text.open_fn("pub fn shared", &["handler: ::std::sync::Arc<T>".into()], &format!("{server}<T>"));
        text.line(&format!("{server}(handler)"));
        text.close("}");
        text.close("}");
        text.blank();
        text.open(&format!("impl<T: {name}> ::fabric::stub::Service for {server}<T> {{"));
        text.open("fn descriptor(&self) -> &'static ::fabric::stub::ServiceDescriptor {");
        text.line(&format!("&{}", self.descriptor));
        text.close("}");
        self.dispatch(
            text,
            "unary",
            "&mut ::fabric::stub::Incoming<'_>",
            &format!("Result<(), {STATUS}>"),
            |shape| shape.is_unary(),
        );
        self.requests(text);
        self.dispatch(text, "stream", "::fabric::stub::StreamCall", "::fabric::stub::BoxFuture", |shape| {
            !shape.is_unary()
        });
        text.close("}");
    }

    /// What methods take that an accelerator may decode for.
    fn requests(&self, text: &mut Text) {
        let placed = |method: &&Method<'_>| method.shape == Shape::Unary;
        let mut methods = self.methods.iter().enumerate().filter(|(_, method)| placed(method)).peekable();
        if methods.peek().is_none() {
            return;
        }
        text.blank();
        let request = "::fabric::stub::RequestType";
        text.open_fn("fn request", &["&self".into(), "method: usize".into()], &format!("Option<{request}>"));
        text.open("match method {");
        for (number, method) in methods {
            text.line(&format!("{number} => Some({request}::of::<{}>()),", method.at.input.name));
        }
        text.line("_ => None,");
        text.close("}");
        text.close("}");
    }

    /// One of the two functions that take a call to its method.
    fn dispatch(
        &self,
        text: &mut Text,
        function: &str,
        call: &str,
        result: &str,
        of: impl Fn(Shape) -> bool,
    ) {
        if !self.methods.iter().any(|method| of(method.shape)) {
            return;
        }
        text.blank();
        let arguments = ["&self".to_owned(), "method: usize".into(), format!("call: {call}")];
        text.line("#[inline]");
        text.open_fn(&format!("fn {function}"), &arguments, result);
        text.open("match method {");
        for (number, method) in self.methods.iter().enumerate().filter(|(_, method)| of(method.shape)) {
            text.open(&format!("{number} => {{"));
            method.dispatch(text, self.name);
            text.close("}");
        }
        text.line(match function {
            "unary" => "_ => Err(::fabric::stub::Service::unimplemented(self, method)),",
            _ => "_ => ::fabric::stub::no_stream(self, method),",
        });
        text.close("}");
        text.close("}");
    }

    fn client(&self, text: &mut Text) {
        let client = self.client;
        let mut taken = Taken::default();
        taken.claim("new".to_owned());
        let names: Vec<String> =
            self.methods.iter().map(|method| taken.claim(method.at.function.clone())).collect();
        text.doc(&format!("Calls `{}` over a channel that it was made for.", self.site.service.name));
        text.line("#[derive(Clone, Copy, Debug)]");
        text.open(&format!("pub struct {client} {{"));
        for name in &names {
            text.line(&format!("{name}: ::fabric::stub::Method,"));
        }
        text.close("}");
        text.blank();
        text.open(&format!("impl {client} {{"));
        text.doc(
            "Finds the methods at the channel's peer.\n\n# Errors\nThe peer does not serve one of them.",
        );
        text.open_fn(
            "pub fn new",
            &["channel: &impl ::fabric::stub::Caller".into()],
            &format!("Result<{client}, ::fabric::stub::NotServed>"),
        );
        let all = names.join(", ");
        text.line(&format!("let [{all}] = ::fabric::stub::resolve(channel, &{})?;", self.descriptor));
        text.line(&format!("Ok({client} {{ {all} }})"));
        text.close("}");
        for (method, name) in self.methods.iter().zip(&names) {
            let plain = name.trim_start_matches("r#").trim_end_matches('_');
            let later = taken.claim(format!("{plain}_async"));
            text.blank();
            method.call(text, name);
            text.blank();
            method.call_async(text, name, &later);
        }
        text.close("}");
    }
}

impl Method<'_> {
    fn doc(&self, text: &mut Text) {
        text.doc(self.at.doc.unwrap_or(&format!("`{}`.", self.path)));
    }

    /// In the trait.
    fn handler(&self, text: &mut Text) {
        let (input, output) = (&self.at.input, &self.at.output);
        let view = format!("request: {}<'_>", input.view);
        let context = "context: &mut ::fabric::stub::Context<'_>".to_owned();
        let head = format!("fn {}", self.at.function);
        match self.shape {
            Shape::Unary => {
                let reply = format!("reply: &mut {}<'_, '_>", output.edit);
                let result = format!("Result<(), {STATUS}>");
                text.open_fn(&head, &["&self".into(), view, reply, context], &result);
                text.line("let _ = (request, reply, context);");
                text.line(&format!("Err(::fabric::stub::unimplemented({:?}))", self.path));
            }
            Shape::Deferred => {
                let reply = format!("reply: ::fabric::stub::Deferred<{}>", output.name);
                text.open_fn(&head, &["&self".into(), view, reply, context], "");
                text.line("let _ = (request, context);");
                text.line(&format!("reply.fail(::fabric::stub::unimplemented({:?}));", self.path));
            }
            _ => {
                let call = format!("call: ::fabric::stub::Streaming<{}, {}>", input.name, output.name);
                let this = "self: ::std::sync::Arc<Self>".to_owned();
                text.open_fn(&head, &[this, call], "::fabric::stub::BoxFuture");
                text.line("let _ = call;");
                text.line(&format!("::fabric::stub::unimplemented_stream({:?})", self.path));
            }
        }
        text.close("}");
    }

    /// In the server's `match`.
    fn dispatch(&self, text: &mut Text, handler: &str) {
        let (input, output) = (&self.at.input.name, &self.at.output.name);
        let function = format!("{handler}::{}", self.at.function);
        match self.shape {
            Shape::Unary => {
                text.open(&format!("call.message::<{input}, {output}>(|request, reply, context| {{"));
                text.line(&format!("{function}(&*self.0, request, reply, context)"));
                text.close("})");
            }
            Shape::Deferred => {
                text.open(&format!(
                    "::fabric::stub::deferred::<{input}, {output}>(call, |request, reply, context| {{"
                ));
                text.line(&format!("{function}(&*self.0, request, reply, context)"));
                text.close("})");
            }
            _ => {
                text.line("let handler = ::std::sync::Arc::clone(&self.0);");
                text.line(&format!("{function}(handler, ::fabric::stub::Streaming::new(call))"));
            }
        }
    }

    fn fill(&self) -> String {
        let edit = &self.at.input.edit;
        format!("fill: impl FnOnce(&mut {edit}<'_, '_>) -> Result<(), ::codec::memory::OutOfMemory>")
    }

    /// In the client, the function that waits.
    fn call(&self, text: &mut Text, name: &str) {
        let (input, output) = (&self.at.input.name, &self.at.output.name);
        self.doc(text);
        let errors = match self.shape {
            Shape::Unary | Shape::Deferred => "How the call ended, if not with a reply.",
            _ => "Why it was not started.",
        };
        let mut arguments = vec!["&self".to_owned()];
        let (channel, result, body) = match self.shape {
            Shape::Unary | Shape::Deferred => {
                text.doc("\nWaits for the reply.");
                let result = format!("::codec::typed::Owned<{output}>");
                (CALLER, result, format!("unary::<{input}, {output}>"))
            }
            Shape::Replies => {
                text.doc("\nThe replies come from what it returns.");
                let result = format!("::fabric::stub::ReplyStream<'c, {output}>");
                ("channel: &'c mut ::fabric::stub::Channel", result, format!("replies::<{input}, {output}>"))
            }
            Shape::Requests => {
                text.doc("\nThe requests go into what it returns.");
                let result = format!("::fabric::stub::RequestStream<'c, {input}, {output}>");
                ("channel: &'c mut ::fabric::stub::Channel", result, format!("requests::<{input}, {output}>"))
            }
            Shape::Both => {
                text.doc("\nRequests go into what it returns, and replies come from it.");
                let result = format!("::fabric::stub::Exchange<'c, {input}, {output}>");
                ("channel: &'c mut ::fabric::stub::Channel", result, format!("exchange::<{input}, {output}>"))
            }
        };
        text.doc(&format!("\n# Errors\n{errors}"));
        arguments.extend([channel.to_owned(), OPTIONS.into()]);
        let mut passed = format!("channel, self.{name}, options");
        if matches!(self.shape, Shape::Unary | Shape::Deferred | Shape::Replies) {
            arguments.push(self.fill());
            passed.push_str(", fill");
        }
        let life = if self.shape.is_unary() { "" } else { "<'c>" };
        text.open_fn(&format!("pub fn {name}{life}"), &arguments, &format!("Result<{result}, {STATUS}>"));
        text.line(&format!("::fabric::stub::{body}({passed})"));
        text.close("}");
    }

    /// In the client, the function that does not wait.
    fn call_async(&self, text: &mut Text, name: &str, later: &str) {
        let channel = if self.shape.is_unary() { CALLER } else { "channel: &mut ::fabric::stub::Channel" };
        let mut arguments = vec!["&self".to_owned(), channel.into()];
        arguments.extend([OPTIONS.into(), "user: u64".into()]);
        text.doc(&format!(
            "Starts a call of [`Self::{name}`]; its events come from the channel, with `user`."
        ));
        let body = if matches!(self.shape, Shape::Unary | Shape::Deferred | Shape::Replies) {
            arguments.push(self.fill());
            format!("channel.build::<{}>(self.{name}, options, user, fill)", self.at.input.name)
        } else {
            text.doc("\nRequests are sent with `channel.send_built`.");
            format!("channel.start(self.{name}, options, user, &[])")
        };
        text.doc("\n# Errors\nWhy it was not started.");
        let result = "Result<::fabric::stub::CallId, ::fabric::stub::StartError>";
        text.open_fn(&format!("pub fn {later}"), &arguments, result);
        text.line(&body);
        text.close("}");
    }
}

/// What a method says of itself, as a constant.
fn options(text: &mut Text, options: &MethodOptions) {
    let at = "::fabric::stub";
    if *options == MethodOptions::default() {
        return text.line(&format!("options: {at}::MethodOptions::NONE,"));
    }
    text.open(&format!("options: {at}::MethodOptions {{"));
    match &options.key {
        Some(key) => {
            text.line(&format!("// {}", key.path));
            let (fields, kind) = (&key.fields, key.kind);
            let key = format!("{at}::Key {{ fields: &{fields:?}, kind: {at}::KeyKind::{kind:?} }}");
            text.line(&format!("key: Some({key}),"));
        }
        None => text.line("key: None,"),
    }
    match &options.cacheable {
        Some(cacheable) => {
            text.open(&format!("cacheable: Some({at}::Cacheable {{"));
            text.line(&format!("ttl_seconds: {},", cacheable.ttl_seconds));
            text.line(&format!("invalidated_by: &{:?},", cacheable.invalidated_by));
            text.close("}),");
        }
        None => text.line("cacheable: None,"),
    }
    text.line(&format!("idempotent: {},", options.idempotent));
    text.line(&format!("order: {at}::Order::{:?},", options.order));
    let places = if options.places == Places::ANY {
        "ANY".to_owned()
    } else {
        let places = options.places.iter().map(|place| format!("{at}::Place::{place:?}"));
        format!("of(&[{}])", places.collect::<Vec<_>>().join(", "))
    };
    text.line(&format!("places: {at}::Places::{places},"));
    text.line(&format!("transaction: {},", options.transaction));
    text.close("},");
}

/// A type's name as that of a constant: `UrlShorten` as `URL_SHORTEN`.
fn upper(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !before.is_ascii_uppercase() && before != '_' {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
        before = letter;
    }
    out
}
