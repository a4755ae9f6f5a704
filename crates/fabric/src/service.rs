//! What a server runs, described: names, methods, schema.

use base::hash::{Hasher64, WIRE_SEED};
use codec::schema::{Schema, Service as Described};
use std::collections::BTreeSet;

/// What is known of a service without running it; in generated code a constant.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDescriptor {
    /// Full name: `shop.Cart`.
    pub name: &'static str,
    /// In the order of the .proto file.
    pub methods: &'static [MethodDescriptor],
    /// [`schema_hash`] of the service.
    pub hash: u64,
    /// Serialised `google.protobuf.FileDescriptorSet` with the service and all that its messages are made of.
    pub descriptors: &'static [u8],
}

/// What is known of a method without running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodDescriptor {
    /// Its name alone: `Add`.
    pub name: &'static str,
    /// The client sends a stream.
    pub client_streaming: bool,
    /// The server sends a stream.
    pub server_streaming: bool,
}

impl MethodDescriptor {
    /// One request, one reply.
    pub fn is_unary(&self) -> bool {
        !self.client_streaming && !self.server_streaming
    }
}

/// What two peers must agree on to mean the same by a service: its name, its methods and how they stream, and the numbers,
/// names, kinds and labels of the fields of all messages that they reach. Not comments, options or the order of declarations.
pub fn schema_hash(schema: &Schema, service: &Described) -> u64 {
    let name = |class: u32| schema.messages()[class as usize].name.as_str();
    let mut lines = vec![format!("service {}", service.name)];
    let mut classes = Vec::new();
    for method in &service.methods {
        let streaming = (method.client_streaming, method.server_streaming);
        lines.push(format!(
            "method {} {} {} {streaming:?}",
            method.name,
            name(method.input),
            name(method.output)
        ));
        classes.extend([method.input, method.output]);
    }
    let mut seen = BTreeSet::new();
    while let Some(class) = classes.pop() {
        if !seen.insert(class) {
            continue;
        }
        for field in &schema.messages()[class as usize].fields {
            let of = field.message.map_or("", name);
            let (field_name, kind, label) = (&field.name, field.kind, field.label);
            lines.push(format!(
                "field {} {} {field_name} {kind:?} {label:?} {of}",
                name(class),
                field.number
            ));
            classes.extend(field.message);
            let values = field.enumeration.iter().flat_map(|&e| &schema.enums()[e as usize].values);
            lines.extend(values.map(|(value, number)| format!("value {field_name} {value} {number}")));
        }
    }
    lines.sort_unstable();
    Hasher64::new(WIRE_SEED).hash(lines.join("\n").as_bytes())
}
