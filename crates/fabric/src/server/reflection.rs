//! The service `millrace.Reflection`: method 0 of every server gives a `google.protobuf.FileDescriptorSet` with everything it serves.
//!
//! Each service brings the files that it is made of, so what several bring is there once (by name; the first one's).

use crate::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use crate::status::Status;
use codec::wire;
use std::collections::BTreeSet;
use std::sync::Arc;

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "millrace.Reflection",
    methods: &[MethodDescriptor::new("Files", false, false)],
    hash: 0,
    descriptors: &[],
};

pub(super) struct Reflection {
    files: Vec<u8>,
}

impl Reflection {
    pub(super) fn of(services: &[Arc<dyn Service>]) -> Reflection {
        let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
        for service in services {
            let descriptors = service.descriptor().descriptors;
            each_field(descriptors, 1, |whole, file| {
                let mut name = Vec::new();
                each_field(file, 1, |_, value| name = value.to_vec());
                if seen.insert(name) {
                    files.extend_from_slice(whole);
                }
            });
        }
        Reflection { files }
    }
}

/// Calls `each` with every field of that number that has a length: all of it, and its value. What is no message ends it.
fn each_field<'a>(message: &'a [u8], number: u32, mut each: impl FnMut(&'a [u8], &'a [u8])) {
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let Ok((found, wire_type)) = wire::read_tag(message, &mut at) else { return };
        let value = at;
        if wire::skip(message, &mut at, found, wire_type).is_err() {
            return;
        }
        if (found, wire_type) == (number, 2) {
            let mut value = value;
            if let Ok(bytes) = wire::read_bytes(message, &mut value) {
                each(&message[start..at], bytes);
            }
        }
    }
}

impl Service for Reflection {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        call.reply_bytes(&self.files);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Of(&'static [u8]);

    impl Service for Of {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            Box::leak(Box::new(ServiceDescriptor { name: "x", methods: &[], hash: 0, descriptors: self.0 }))
        }
    }

    #[test]
    fn files_that_several_services_bring_are_there_once() {
        // Two files "a" and "b" with a package each, then "b" and "c", then what is no descriptor set.
        let first = Of(b"\x0a\x06\x0a\x01a\x12\x01p\x0a\x06\x0a\x01b\x12\x01p");
        let second = Of(b"\x0a\x06\x0a\x01b\x12\x01q\x0a\x03\x0a\x01c");
        let services: Vec<Arc<dyn Service>> = vec![Arc::new(first), Arc::new(second), Arc::new(Of(b"\xff"))];
        let merged = Reflection::of(&services).files;
        assert_eq!(merged, b"\x0a\x06\x0a\x01a\x12\x01p\x0a\x06\x0a\x01b\x12\x01p\x0a\x03\x0a\x01c");
    }
}
