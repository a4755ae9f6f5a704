//! Service `inference.GRPCInferenceService` on the fabric's server: requests leave for the engine through the [`Edge`], as all others do. Clients of gRPC
//! reach it through the gateway before that server.

use super::describe::{self, CountAndTime, Statistics};
use super::proto::inference as proto;
use crate::rec::edge::Edge;
use crate::rec::job::{Input, Reply};
use crate::rec::preprocess::is_named;
use crate::rec::traced::Traced;
use codec::memory::OutOfMemory;
use fabric::monitor::trace::context_of;
use fabric::service::{Incoming, Service, ServiceDescriptor};
use fabric::status::{Code, Status};
use proto::{
    GRPCINFERENCE_SERVICE, InferStatisticsMut, ModelMetadataRequest, ModelMetadataResponse,
    ModelMetadataResponseMut, ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest,
    ModelStatisticsResponse, ModelStatisticsResponseMut, RepositoryIndexRequest, RepositoryIndexResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse,
};
use rec::request::Served;
use std::sync::Arc;

/// The methods, in the order of the .proto file.
const SERVER_LIVE: usize = 0;
const SERVER_READY: usize = 1;
const MODEL_READY: usize = 2;
const SERVER_METADATA: usize = 3;
const MODEL_METADATA: usize = 4;
const MODEL_INFER: usize = 5;
const MODEL_STATISTICS: usize = 6;
const REPOSITORY_INDEX: usize = 7;

/// The name of its spans.
const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Answers the protocol's calls by what the server's edge answers.
pub struct Front(pub Arc<Edge>);

fn no_memory(_: OutOfMemory) -> Status {
    Status::new(Code::ResourceExhausted, "no memory for the reply")
}

impl Front {
    /// The model, if it is the one that is meant.
    fn served(&self, model: &str, version: &str) -> Result<Arc<Served>, Status> {
        let served = self.0.shelf.current();
        is_named(model, version, &served).map_err(|why| why.status())?;
        Ok(served)
    }

    fn infer(&self, call: &mut Incoming<'_>) {
        let traced = self.0.trace(PATH, context_of(call.context().metadata()));
        let body: Box<[u8]> = call.body().into();
        traced.iter().for_each(Traced::read);
        let reply = Reply::inference(call.defer(), traced);
        self.0.submit(Input::Inference(body), reply, self.0.hold());
    }
}

impl Service for Front {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &GRPCINFERENCE_SERVICE
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match method {
            // Who is answered is, and has a model.
            SERVER_LIVE => call.message::<ServerLiveRequest, ServerLiveResponse>(|_, reply, _| {
                reply.set_live(true);
                Ok(())
            }),
            SERVER_READY => call.message::<ServerReadyRequest, ServerReadyResponse>(|_, reply, _| {
                reply.set_ready(true);
                Ok(())
            }),
            MODEL_READY => call.message::<ModelReadyRequest, ModelReadyResponse>(|request, reply, _| {
                self.served(request.name(), request.version())?;
                reply.set_ready(true);
                Ok(())
            }),
            SERVER_METADATA => {
                call.message::<ServerMetadataRequest, ServerMetadataResponse>(|_, reply, _| {
                    reply.set_name(describe::NAME).map_err(no_memory)?;
                    reply.set_version(describe::VERSION).map_err(no_memory)?;
                    describe::EXTENSIONS
                        .iter()
                        .try_for_each(|name| reply.push_extensions(name))
                        .map_err(no_memory)
                })
            }
            MODEL_METADATA => {
                call.message::<ModelMetadataRequest, ModelMetadataResponse>(|request, reply, _| {
                    let served = self.served(request.name(), request.version())?;
                    metadata(&served, reply).map_err(no_memory)
                })
            }
            MODEL_INFER => {
                self.infer(call);
                Ok(())
            }
            MODEL_STATISTICS => {
                call.message::<ModelStatisticsRequest, ModelStatisticsResponse>(|request, reply, _| {
                    let served = match request.name() {
                        "" => self.0.shelf.current(),
                        name => self.served(name, request.version())?,
                    };
                    statistics(&served, &Statistics::of(&self.0.counters), reply).map_err(no_memory)
                })
            }
            REPOSITORY_INDEX => {
                call.message::<RepositoryIndexRequest, RepositoryIndexResponse>(|_, reply, _| {
                    let served = self.0.shelf.current();
                    let mut one = reply.push_models().map_err(no_memory)?;
                    one.set_name(&served.name).map_err(no_memory)?;
                    one.set_version(&served.version).map_err(no_memory)?;
                    one.set_state("READY").map_err(no_memory)
                })
            }
            _ => Err(self.unimplemented(method)),
        }
    }
}

fn metadata(served: &Served, reply: &mut ModelMetadataResponseMut<'_, '_>) -> Result<(), OutOfMemory> {
    reply.set_name(&served.name)?;
    reply.push_versions(&served.version)?;
    reply.set_platform(describe::PLATFORM)?;
    for tensor in describe::inputs(served) {
        let mut to = reply.push_inputs()?;
        to.set_name(&tensor.name)?;
        to.set_datatype(tensor.datatype)?;
        to.set_shape(&tensor.shape)?;
    }
    for tensor in describe::outputs(served) {
        let mut to = reply.push_outputs()?;
        to.set_name(&tensor.name)?;
        to.set_datatype(tensor.datatype)?;
        to.set_shape(&tensor.shape)?;
    }
    Ok(())
}

fn statistics(
    served: &Served,
    counted: &Statistics,
    reply: &mut ModelStatisticsResponseMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let mut model = reply.push_model_stats()?;
    model.set_name(&served.name)?;
    model.set_version(&served.version)?;
    model.set_inference_count(counted.inferences);
    model.set_execution_count(counted.executions);
    stages(counted, &mut model.inference_stats_mut()?)
}

fn stages(counted: &Statistics, to: &mut InferStatisticsMut<'_, '_>) -> Result<(), OutOfMemory> {
    let put = |mut to: proto::StatisticDurationMut<'_, '_>, (count, ns): CountAndTime| {
        to.set_count(count);
        to.set_ns(ns);
    };
    put(to.success_mut()?, counted.success);
    put(to.fail_mut()?, counted.fail);
    put(to.queue_mut()?, counted.queue);
    put(to.compute_input_mut()?, counted.compute_input);
    put(to.compute_infer_mut()?, counted.compute_infer);
    put(to.compute_output_mut()?, counted.compute_output);
    Ok(())
}
