//! gRPC's server reflection: what the server behind the gateway serves, from the descriptors that it gave when it was connected.
//!
//! Errors: a question that has no answer is answered with an error of its own, and the stream goes on.
//!
//! Bounds: a stream has each file once.

use super::bridge::Bridge;
use super::built_in::proto::grpc::reflection::v1 as proto;
use super::built_in::reply;
use super::stream::{Answer, Outcome, Requests};
use codec::memory::OutOfMemory;
use codec::schema::Catalog;
use fabric::status::{Code, Status};
use proto::server_reflection_request::MessageRequest;
use proto::{
    ServerReflectionRequest, ServerReflectionRequestView, ServerReflectionResponse,
    ServerReflectionResponseMut,
};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Answers one request after the other.
pub async fn answer(bridge: &Rc<Bridge>, requests: &mut Requests, answer: &mut Answer) -> Outcome {
    if let Err(status) = bridge.connect().await {
        return Ok((Err(status), Vec::new()));
    }
    let (catalog, mut sent) = (bridge.catalog(), BTreeSet::new());
    loop {
        let answered = match requests.next().await {
            Ok(Some(request)) => answered(&catalog, &request, &mut sent),
            Ok(None) => return Ok((Ok(()), Vec::new())),
            Err(status) => Err(status),
        };
        match answered {
            Ok(reply) => answer.message(&reply).await?,
            Err(status) => return Ok((Err(status), Vec::new())),
        }
    }
}

/// The reply to a request on a stream that has had the files in `sent`.
///
/// # Errors
/// It is no such request.
fn answered(catalog: &Catalog, request: &[u8], sent: &mut BTreeSet<usize>) -> Result<Vec<u8>, Status> {
    reply::<ServerReflectionRequest, ServerReflectionResponse>(request, |request, reply| {
        reply.set_valid_host(request.host())?;
        repeat(request, reply)?;
        let missing = |what: &str, name: &str| (Code::NotFound, format!("there is no {what} {name:?} here"));
        let found = match request.message_request() {
            Some(MessageRequest::FileByFilename(name)) => {
                catalog.file(name).ok_or_else(|| missing("file", name))
            }
            Some(MessageRequest::FileContainingSymbol(name)) => {
                catalog.file_of_symbol(name).ok_or_else(|| missing("symbol", name))
            }
            Some(MessageRequest::FileContainingExtension(of)) => {
                let (name, number) = (of.containing_type(), of.extension_number());
                let what = format!("extension {number} of");
                catalog.file_of_extension(name, number).ok_or_else(|| missing(&what, name))
            }
            Some(MessageRequest::AllExtensionNumbersOfType(name)) => match catalog.extension_numbers(name) {
                None => Err(missing("message", name)),
                Some(numbers) => {
                    let mut reply = reply.all_extension_numbers_response_mut()?;
                    reply.set_base_type_name(name)?;
                    return numbers.into_iter().try_for_each(|number| reply.push_extension_number(number));
                }
            },
            Some(MessageRequest::ListServices(_)) => {
                let mut reply = reply.list_services_response_mut()?;
                return catalog.services().try_for_each(|name| reply.push_service()?.set_name(name));
            }
            None => {
                Err((Code::InvalidArgument, "the request asks for nothing that is known here".to_owned()))
            }
        };
        match found {
            Ok(file) => {
                let mut reply = reply.file_descriptor_response_mut()?;
                let all = catalog.with_imports(file);
                // The file that was asked for, also again.
                let new = all.into_iter().filter(|&one| sent.insert(one) || one == file);
                new.into_iter().try_for_each(|file| reply.push_file_descriptor_proto(catalog.bytes(file)))
            }
            Err((code, text)) => {
                let mut reply = reply.error_response_mut()?;
                reply.set_error_code(code as i32);
                reply.set_error_message(&text)
            }
        }
    })
}

/// The request, as a part of its reply.
fn repeat(
    request: ServerReflectionRequestView<'_>,
    reply: &mut ServerReflectionResponseMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let mut original = reply.original_request_mut()?;
    original.set_host(request.host())?;
    match request.message_request() {
        Some(MessageRequest::FileByFilename(name)) => original.set_file_by_filename(name),
        Some(MessageRequest::FileContainingSymbol(name)) => original.set_file_containing_symbol(name),
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => {
            original.set_all_extension_numbers_of_type(name)
        }
        Some(MessageRequest::ListServices(text)) => original.set_list_services(text),
        Some(MessageRequest::FileContainingExtension(of)) => {
            let mut extension = original.file_containing_extension_mut()?;
            extension.set_containing_type(of.containing_type())?;
            extension.set_extension_number(of.extension_number());
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::built_in::proto::DESCRIPTORS;
    use super::*;
    use codec::decode::Decoder;
    use codec::encode::Encoder;
    use codec::memory::Arena;
    use codec::typed::{Message as _, MessageView as _};
    use proto::ServerReflectionRequestMut;
    use proto::server_reflection_response::MessageResponse;

    fn request(fill: impl FnOnce(&mut ServerReflectionRequestMut<'_, '_>)) -> Vec<u8> {
        let (arena, mut encoder) = (Arena::default(), Encoder::default());
        let mut request = ServerReflectionRequest::new(&arena).expect("memory");
        fill(&mut request);
        ServerReflectionRequest::freeze(request).encode(&mut encoder).expect("encoded").to_vec()
    }

    /// What is answered, in short: how many files, names, numbers, or which error.
    fn asked(
        sent: &mut BTreeSet<usize>,
        fill: impl FnOnce(&mut ServerReflectionRequestMut<'_, '_>),
    ) -> String {
        let catalog = Catalog::of(&[demo(), DESCRIPTORS]).expect("descriptors");
        let request = request(fill);
        let reply = answered(&catalog, &request, sent).expect("a request");
        let (arena, mut decoder, mut encoder) = (Arena::default(), Decoder::default(), Encoder::default());
        let reply = ServerReflectionResponse::decode(&mut decoder, &reply, &arena).expect("a response");
        let original = reply.original_request().expect("it is repeated");
        assert_eq!(original.encode(&mut encoder).expect("encoded"), request);
        match reply.message_response().expect("some") {
            MessageResponse::FileDescriptorResponse(files) => {
                format!("{} files", files.file_descriptor_proto().len())
            }
            MessageResponse::ListServicesResponse(list) => {
                list.service().iter().map(|service| service.name()).collect::<Vec<_>>().join(" ")
            }
            MessageResponse::AllExtensionNumbersResponse(all) => format!("{:?}", all.extension_number()),
            MessageResponse::ErrorResponse(error) => {
                format!("{}: {}", error.error_code(), error.error_message())
            }
        }
    }

    fn demo() -> &'static [u8] {
        crate::rpc::demo::proto::DESCRIPTORS
    }

    #[test]
    fn what_a_tool_asks_is_answered() {
        let mut sent = BTreeSet::new();
        let mut ask = |fill: fn(&mut ServerReflectionRequestMut<'_, '_>)| asked(&mut sent, fill);
        assert_eq!(
            ask(|request| request.set_list_services("").expect("memory")),
            "demo.Echo grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection"
        );
        // With the options' file and descriptor.proto, which it imports; these are sent once.
        assert_eq!(
            ask(|request| request.set_file_containing_symbol("demo.Echo.Say").expect("memory")),
            "3 files"
        );
        assert_eq!(ask(|request| request.set_file_by_filename("demo.proto").expect("memory")), "1 files");
        assert_eq!(
            ask(|request| request.set_file_by_filename("none.proto").expect("memory")),
            "5: there is no file \"none.proto\" here"
        );
        assert_eq!(
            ask(|request| request.set_file_containing_symbol("demo.None").expect("memory")),
            "5: there is no symbol \"demo.None\" here"
        );
        let of_methods = |request: &mut ServerReflectionRequestMut<'_, '_>| {
            let name = "google.protobuf.MethodOptions";
            request.set_all_extension_numbers_of_type(name).expect("memory");
        };
        assert_eq!(ask(of_methods), "[51235, 51236, 51237, 51238, 51239, 51240]");
        let of_methods = |number: i32| {
            move |request: &mut ServerReflectionRequestMut<'_, '_>| {
                request.set_host("here").expect("memory");
                let mut extension = request.file_containing_extension_mut().expect("memory");
                extension.set_containing_type("google.protobuf.MethodOptions").expect("memory");
                extension.set_extension_number(number);
            }
        };
        assert_eq!(asked(&mut sent, of_methods(51235)), "1 files");
        assert_eq!(
            asked(&mut sent, of_methods(1)),
            "5: there is no extension 1 of \"google.protobuf.MethodOptions\" here"
        );
        assert_eq!(asked(&mut sent, |_| ()), "3: the request asks for nothing that is known here");
    }

    #[test]
    fn what_is_no_request_ends_the_stream() {
        let refused = answered(&Catalog::default(), b"\xff", &mut BTreeSet::new());
        assert_eq!(refused.expect_err("no request").code(), Code::InvalidArgument);
    }
}
