//! Methods that the gateway answers itself: gRPC's server reflection and health checking.
//!
//! Their messages are those of `proto/grpc`; `proto/grpc.rs` is made of these files by `fabric::build` and committed.

use super::reflection;
use super::stream::{Answer, Backend, Outcome, Requests};
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView as _};
use fabric::status::{Code, Status};

// The protocol's own names end alike.
#[allow(missing_docs, clippy::undocumented_unsafe_blocks, clippy::enum_variant_names, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../../proto/grpc.rs");
}

/// A method that is answered here, and not by the server behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// What there is, in either version: they differ in their package's name alone.
    Reflection,
    /// How a service stands.
    Check,
    /// The same, and each change of it.
    Watch,
}

impl BuiltIn {
    /// The one at a path.
    pub fn of(path: &str) -> Option<BuiltIn> {
        match path {
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Some(BuiltIn::Reflection),
            "/grpc.health.v1.Health/Check" => Some(BuiltIn::Check),
            "/grpc.health.v1.Health/Watch" => Some(BuiltIn::Watch),
            _ => None,
        }
    }

    /// Answers a call of it.
    pub async fn answer(self, backend: &Backend, requests: &mut Requests, answer: &mut Answer) -> Outcome {
        match self {
            BuiltIn::Reflection => reflection::answer(&backend.bridge, requests, answer).await,
            BuiltIn::Check => backend.health.check(&backend.bridge, requests, answer).await,
            BuiltIn::Watch => backend.health.watch(&backend.bridge, requests, answer).await,
        }
    }
}

/// What `make` makes of a request, encoded.
///
/// # Errors
/// It is no such request, or there is no memory for the reply.
pub fn reply<Q: Message, A: Message>(
    request: &[u8],
    make: impl FnOnce(Q::View<'_>, &mut A::Mut<'_, '_>) -> Result<(), OutOfMemory>,
) -> Result<Vec<u8>, Status> {
    let (arena, mut decoder, mut encoder) = (Arena::default(), Decoder::default(), Encoder::default());
    let request = Q::decode(&mut decoder, request, &arena).map_err(|error| {
        Status::new(Code::InvalidArgument, format!("the request cannot be decoded: {error}"))
    })?;
    let no_memory = || Status::new(Code::ResourceExhausted, "no memory for the reply");
    let mut made = A::new(&arena).map_err(|_| no_memory())?;
    make(request, &mut made).map_err(|_| no_memory())?;
    let encoded = A::freeze(made).encode(&mut encoder).map_err(|_| no_memory())?;
    Ok(encoded.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_methods_of_the_files_are_built_in_and_no_others() {
        let services = proto::types().schema().services();
        assert_eq!(services.len(), 3);
        for service in services {
            for method in &service.methods {
                assert!(
                    BuiltIn::of(&format!("/{}/{}", service.name, method.name)).is_some(),
                    "{}",
                    method.name
                );
            }
        }
        assert_eq!(BuiltIn::of("/grpc.health.v1.Health/List"), None);
    }

    #[test]
    fn the_two_versions_of_reflection_have_the_same_messages() {
        let schema = proto::types().schema();
        let first =
            schema.messages().iter().filter(|message| message.name.starts_with("grpc.reflection.v1."));
        let mut compared = 0;
        for message in first {
            let alpha = schema.message(&message.name.replace(".v1.", ".v1alpha.")).expect("it is there, too");
            let of = |message: &codec::schema::Message| {
                message
                    .fields
                    .iter()
                    .map(|field| (field.number, field.name.clone(), field.kind, field.label))
                    .collect::<Vec<_>>()
            };
            assert_eq!(of(message), of(alpha));
            compared += 1;
        }
        assert_eq!(compared, 8);
    }
}
