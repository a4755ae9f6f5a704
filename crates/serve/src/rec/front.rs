//! Service `Recommend` on a fabric server: requests leave for the engine through the [`Edge`].

use super::edge::Edge;
use super::job::{Input, Reply};
use super::words::put_description;
use crate::rec::proto::millrace::{DescribeReply, DescribeRequest, RECOMMEND};
use fabric::monitor::trace::context_of;
use fabric::service::{Incoming, Service, ServiceDescriptor};
use fabric::status::{Code, Status};
use std::sync::Arc;

/// The methods, in the order of the .proto file.
const INFER: usize = 0;
const DESCRIBE: usize = 1;
/// The name of its spans.
const PATH: &str = "/millrace.Recommend/Infer";

/// See the head of the file.
pub struct Front(pub Arc<Edge>);

impl Service for Front {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &RECOMMEND
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match method {
            INFER => {
                let traced = self.0.trace(PATH, context_of(call.context().metadata()));
                let body: Box<[u8]> = call.body().into();
                traced.iter().for_each(|traced| traced.read(body.len()));
                let reply = Reply::message(call.defer(), traced);
                self.0.submit(Input::Message(body), reply, self.0.hold());
                Ok(())
            }
            DESCRIBE => call.message::<DescribeRequest, DescribeReply>(|request, reply, _| {
                let served = self.0.shelf.find(request.model(), None).map_err(|why| why.status())?;
                put_description(&served, &self.0.counters, reply)
                    .map_err(|_| Status::new(Code::ResourceExhausted, "no memory for the reply"))
            }),
            _ => Err(self.unimplemented(method)),
        }
    }
}
