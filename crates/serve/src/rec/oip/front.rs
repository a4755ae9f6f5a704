//! Service `inference.GRPCInferenceService` on the fabric's server: requests leave for the engine through the [`Edge`], as all others do. Clients of gRPC
//! reach it through the gateway before that server.

use super::describe::{self, Configuration, CountAndTime, Statistics};
use super::proto::inference as proto;
use crate::rec::edge::Edge;
use crate::rec::job::{Input, Reply};
use crate::rec::preprocess::any_if_empty;
use crate::rec::registers::Registers;
use crate::rec::shelf::{LoadError, Model, Shelf};
use codec::decode::Decoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::Message;
use fabric::monitor::trace::context_of;
use fabric::service::{Incoming, Responder, Service, ServiceDescriptor};
use fabric::status::{Code, Status};
use proto::{
    GRPCINFERENCE_SERVICE, InferStatisticsMut, ModelConfigMut, ModelConfigRequest, ModelConfigResponse,
    ModelMetadataRequest, ModelMetadataResponse, ModelMetadataResponseMut, ModelReadyRequest,
    ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse, ModelStatisticsResponseMut,
    RepositoryIndexRequest, RepositoryIndexResponse, RepositoryIndexResponseMut, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerMetadataResponseMut, ServerReadyRequest, ServerReadyResponse,
};
use rec::request::Served;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The methods, in the order of the .proto file.
const SERVER_LIVE: usize = 0;
const SERVER_READY: usize = 1;
const MODEL_READY: usize = 2;
const SERVER_METADATA: usize = 3;
const MODEL_METADATA: usize = 4;
const MODEL_INFER: usize = 5;
const MODEL_STATISTICS: usize = 6;
const REPOSITORY_INDEX: usize = 7;
const MODEL_CONFIG: usize = 8;
const MODEL_LOAD: usize = 9;
const MODEL_UNLOAD: usize = 10;

/// The name of its spans.
const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Answers the protocol's calls by what the server's edge answers.
pub struct Front {
    edge: Arc<Edge>,
    /// A thread loads or unloads a model for a client.
    is_loading: Arc<AtomicBool>,
}

fn no_memory(_: OutOfMemory) -> Status {
    Status::new(Code::ResourceExhausted, "no memory for the reply")
}

/// The right to load or unload a model, of one thread at a time; it comes back however that thread ends.
struct LoadTurn(Arc<AtomicBool>);

impl LoadTurn {
    fn take(is_taken: &Arc<AtomicBool>) -> Option<LoadTurn> {
        (!is_taken.swap(true, Ordering::Acquire)).then(|| LoadTurn(Arc::clone(is_taken)))
    }
}

impl Drop for LoadTurn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Front {
    /// For this edge.
    pub fn new(edge: Arc<Edge>) -> Front {
        Front { edge, is_loading: Arc::default() }
    }

    /// The model that is meant.
    fn served(&self, model: &str, version: &str) -> Result<Arc<Model>, Status> {
        self.edge.shelf.find(model, any_if_empty(version)).map_err(|why| why.status())
    }

    /// The versions that are meant.
    fn versions(&self, model: &str, version: &str) -> Result<Vec<Arc<Model>>, Status> {
        self.edge.shelf.versions(model, any_if_empty(version)).map_err(|why| why.status())
    }

    /// Changes which models are served. A model takes its time, and this is the thread of all clients: another one does it. The turn is given back before
    /// the client is answered: it may ask for the next at once.
    fn change<R: Message>(
        &self,
        responder: Responder,
        change: impl FnOnce(&Shelf) -> Result<(), LoadError> + Send + 'static,
    ) {
        let Some(turn) = LoadTurn::take(&self.is_loading) else {
            let busy = "a model is being loaded for another client: ask again later";
            return responder.fail(&Status::new(Code::ResourceExhausted, busy));
        };
        let shelf = Arc::clone(&self.edge.shelf);
        let work = move || {
            let turn = turn;
            let outcome = change(&shelf);
            drop(turn);
            answered::<R>(responder, outcome);
        };
        // Of a thread that the system does not give, the responder has answered that the call was dropped.
        let _ = std::thread::Builder::new().name("rec-load".to_owned()).spawn(work);
    }

    fn infer(&self, call: &mut Incoming<'_>) {
        let traced = self.edge.trace(PATH, context_of(call.context().metadata()));
        let body: Box<[u8]> = call.body().into();
        traced.iter().for_each(|traced| traced.read(body.len()));
        let reply = Reply::inference(call.defer(), traced);
        self.edge.submit(Input::Inference(body), reply, self.edge.hold());
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
                    about_server(reply).map_err(no_memory)
                })
            }
            MODEL_METADATA => {
                call.message::<ModelMetadataRequest, ModelMetadataResponse>(|request, reply, _| {
                    let versions = self.versions(request.name(), request.version())?;
                    metadata(&versions, reply).map_err(no_memory)
                })
            }
            MODEL_INFER => {
                self.infer(call);
                Ok(())
            }
            MODEL_STATISTICS => {
                call.message::<ModelStatisticsRequest, ModelStatisticsResponse>(|request, reply, _| {
                    let models = match request.name() {
                        "" => self.edge.shelf.all().to_vec(),
                        name => self.versions(name, request.version())?,
                    };
                    let mut models = models.iter();
                    models.try_for_each(|model| statistics(model, reply)).map_err(no_memory)
                })
            }
            REPOSITORY_INDEX => {
                call.message::<RepositoryIndexRequest, RepositoryIndexResponse>(|request, reply, _| {
                    index(&self.edge.shelf, request.ready(), reply).map_err(no_memory)
                })
            }
            MODEL_CONFIG => call.message::<ModelConfigRequest, ModelConfigResponse>(|request, reply, _| {
                let served = self.served(request.name(), request.version())?;
                let mut config = reply.config_mut().map_err(no_memory)?;
                configuration(&served, &self.edge.registers, &mut config).map_err(no_memory)
            }),
            MODEL_LOAD => {
                let name = model_to_load(call.body())?;
                let load = move |shelf: &Shelf| shelf.load(&name).map(drop);
                self.change::<RepositoryModelLoadResponse>(call.defer(), load);
                Ok(())
            }
            MODEL_UNLOAD => {
                let name = model_to_unload(call.body())?;
                let unload = move |shelf: &Shelf| shelf.unload(&name);
                self.change::<RepositoryModelUnloadResponse>(call.defer(), unload);
                Ok(())
            }
            _ => Err(self.unimplemented(method)),
        }
    }
}

fn about_server(reply: &mut ServerMetadataResponseMut<'_, '_>) -> Result<(), OutOfMemory> {
    reply.set_name(describe::NAME)?;
    reply.set_version(describe::VERSION)?;
    describe::EXTENSIONS.iter().try_for_each(|name| reply.push_extensions(name))
}

/// The name in a `RepositoryModelLoadRequest`.
fn model_to_load(body: &[u8]) -> Result<String, Status> {
    let arena = Arena::default();
    let request = RepositoryModelLoadRequest::decode(&mut Decoder::default(), body, &arena);
    let request = request.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
    if request.parameters().iter().next().is_some() {
        return Err(Status::new(
            Code::InvalidArgument,
            "parameters are not understood: config.pbtxt in the model's folder says how it is loaded",
        ));
    }
    Ok(request.model_name().to_owned())
}

/// The name in a `RepositoryModelUnloadRequest`; models depend on no others, whatever its parameters say of these.
fn model_to_unload(body: &[u8]) -> Result<String, Status> {
    let arena = Arena::default();
    let request = RepositoryModelUnloadRequest::decode(&mut Decoder::default(), body, &arena);
    let request = request.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
    Ok(request.model_name().to_owned())
}

fn answered<R: Message>(responder: Responder, outcome: Result<(), LoadError>) {
    match outcome {
        Ok(()) => responder.reply::<R>(|_| Ok(())),
        Err(LoadError::Refused(why)) => responder.fail(&why.status()),
        Err(why) => responder.fail(&Status::new(Code::FailedPrecondition, why.to_string())),
    }
}

fn metadata(
    versions: &[Arc<Model>],
    reply: &mut ModelMetadataResponseMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let served = versions.last().expect("at least one was found");
    reply.set_name(&served.name)?;
    versions.iter().try_for_each(|model| reply.push_versions(&model.version))?;
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

fn configuration(
    served: &Served,
    registers: &Registers,
    to: &mut ModelConfigMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let Configuration { batch, delay, formats } = Configuration::of(served, registers);
    to.set_name(&served.name)?;
    to.set_platform(describe::PLATFORM)?;
    to.set_backend(describe::PLATFORM)?;
    if let Ok(version) = served.version.parse() {
        to.version_policy_mut()?.specific_mut()?.set_versions(&[version])?;
    }
    to.set_max_batch_size(batch);
    for tensor in describe::inputs(served) {
        let mut input = to.push_input()?;
        input.set_name(&tensor.name)?;
        input.set_data_type(describe::data_type(&tensor));
        input.set_dims(&tensor.shape)?;
    }
    for tensor in describe::outputs(served) {
        let mut output = to.push_output()?;
        output.set_name(&tensor.name)?;
        output.set_data_type(describe::data_type(&tensor));
        output.set_dims(&tensor.shape)?;
    }
    let mut batching = to.dynamic_batching_mut()?;
    batching.set_max_queue_delay_microseconds(delay);
    batching.set_preserve_ordering(true);
    for (table, format) in formats {
        let name = format!("{table}.row_format");
        to.parameters_mut().message_mut(&name)?.set_string_value(&format)?;
    }
    Ok(())
}

/// The models of the repository, or those that are served.
fn index(
    shelf: &Shelf,
    ready: bool,
    reply: &mut RepositoryIndexResponseMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    shelf.index().iter().filter(|one| !ready || one.state == "READY").try_for_each(|one| {
        let mut to = reply.push_models()?;
        to.set_name(&one.name)?;
        to.set_version(&one.version)?;
        to.set_state(one.state)?;
        to.set_reason(&one.reason)
    })
}

fn statistics(model: &Model, reply: &mut ModelStatisticsResponseMut<'_, '_>) -> Result<(), OutOfMemory> {
    let counted = &Statistics::of(&model.counted);
    let mut to = reply.push_model_stats()?;
    to.set_name(&model.name)?;
    to.set_version(&model.version)?;
    to.set_inference_count(counted.inferences);
    to.set_execution_count(counted.executions);
    stages(counted, &mut to.inference_stats_mut()?)
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
