//! A request on its way from an edge over preprocessing to the engine, and how it is answered.

use super::counters::Stages;
use super::held::Hold;
use super::oip::messages::response;
use super::oip::proto::inference::ModelInferResponse;
use super::refusal::Refusal;
use super::shelf::Model;
use super::traced::Traced;
use super::words::put_scores;
use crate::rec::proto::millrace::InferReply;
use base::Nanos;
use base::trace::Scope;
use bytes::Bytes;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use fabric::service::Responder;
use fabric::status::{Code, Status};
use rec::request::Queries;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What an edge received.
pub struct Job {
    /// When it was received.
    pub arrived: Nanos,
    /// What, as it came.
    pub input: Input,
    /// How it is answered.
    pub reply: Reply,
    /// Its bytes, as far as they count.
    pub hold: Hold,
}

/// A request as it came.
pub enum Input {
    /// An `InferRequest` of the fabric.
    Message(Box<[u8]>),
    /// A `ModelInferRequest` of the Open Inference Protocol, over the fabric or gRPC.
    Inference(Box<[u8]>),
    /// An HTTP request.
    Http {
        /// Its body.
        body: Bytes,
        /// How much of it is JSON, if not all.
        header: Option<usize>,
        /// The model that it asks for.
        model: String,
        /// The version that it asks for.
        version: Option<String>,
    },
}

impl Input {
    /// How much has come.
    pub fn bytes(&self) -> usize {
        match self {
            Input::Message(body) | Input::Inference(body) => body.len(),
            Input::Http { body, .. } => body.len(),
        }
    }
}

/// For the answer to an HTTP request.
pub type Answer = oneshot::Sender<Result<Scored, Refusal>>;

/// The answer to an HTTP request, which its edge puts into words.
pub struct Scored {
    /// By whom.
    pub served: Arc<Model>,
    /// Rows of the model's outputs.
    pub scores: Vec<f32>,
    /// To be given back.
    pub id: Option<String>,
    /// In binary.
    pub is_binary: bool,
    /// Where time went.
    pub stages: Stages,
}

/// A request that the engine can compute.
pub struct Ready {
    /// By which model, which also checked it.
    pub served: Arc<Model>,
    /// What.
    pub queries: Queries,
    /// How it is answered.
    pub reply: Reply,
    /// When it was ready.
    pub at: Nanos,
    /// Times until then.
    pub stages: Stages,
    /// Its bytes, as far as they count.
    pub hold: Hold,
}

/// How a request is answered, once: by whoever comes first. Its task keeps one beside the request, so that it can say why it was ended whoever has the
/// request then; what is dropped without an answer is answered by the edge.
#[derive(Clone)]
pub struct Reply(Arc<Awaited>);

struct Awaited {
    caller: Mutex<Option<Caller>>,
    scope: Option<Scope>,
}

/// Who waits.
enum Caller {
    /// Over the fabric.
    Message(Responder, Option<Box<Traced>>, ReplyForm),
    /// Over HTTP.
    Http {
        answer: Answer,
        /// To be given back.
        id: Option<String>,
        is_binary: bool,
    },
}

/// In which messages a caller over the fabric is answered.
enum ReplyForm {
    /// An `InferReply`.
    Recommend,
    /// A `ModelInferResponse`.
    Inference {
        /// To be given back.
        id: Option<String>,
        /// The scores are bytes.
        is_binary: bool,
    },
}

/// What a thread that answers uses again for each answer.
#[derive(Default)]
pub struct Tools {
    arena: Arena,
    encoder: Encoder,
}

impl Tools {
    /// Encodes what `put` makes of an empty message; false: there is no memory for it.
    fn encode<M: Message>(
        &mut self,
        put: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> bool {
        self.arena.reset();
        let built = M::new(&self.arena).and_then(|mut reply| put(&mut reply).map(|()| reply));
        built.is_ok_and(|reply| M::freeze(reply).encode(&mut self.encoder).is_ok())
    }
}

impl Reply {
    /// To a caller over the fabric.
    pub fn message(responder: Responder, traced: Option<Traced>) -> Reply {
        Reply::formed(responder, traced, ReplyForm::Recommend)
    }

    /// To a caller over the fabric who speaks the Open Inference Protocol.
    pub fn inference(responder: Responder, traced: Option<Traced>) -> Reply {
        Reply::formed(responder, traced, ReplyForm::Inference { id: None, is_binary: false })
    }

    fn formed(responder: Responder, traced: Option<Traced>, form: ReplyForm) -> Reply {
        let scope = traced.as_ref().and_then(|traced| traced.scope().cloned());
        Reply::of(Caller::Message(responder, traced.map(Box::new), form), scope)
    }

    /// To a caller over HTTP, whose edge ends the span that `scope` is of.
    pub fn http(answer: Answer, scope: Option<Scope>) -> Reply {
        Reply::of(Caller::Http { answer, id: None, is_binary: false }, scope)
    }

    fn of(caller: Caller, scope: Option<Scope>) -> Reply {
        Reply(Arc::new(Awaited { caller: Mutex::new(Some(caller)), scope }))
    }

    fn caller(&self) -> MutexGuard<'_, Option<Caller>> {
        self.0.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the spans of its request belong, if that leaves any.
    pub fn scope(&self) -> Option<&Scope> {
        self.0.scope.as_ref()
    }

    /// In the Open Inference Protocol: what is to be given back, and in which form.
    pub fn set_form(&self, own: Option<String>, binary: bool) {
        if let Some(
            Caller::Http { id, is_binary, .. } | Caller::Message(.., ReplyForm::Inference { id, is_binary }),
        ) = &mut *self.caller()
        {
            (*id, *is_binary) = (own, binary);
        }
    }

    /// Whether nobody waits for it any more.
    pub fn is_given_up(&self) -> bool {
        match &*self.caller() {
            Some(Caller::Message(responder, ..)) => responder.is_cancelled(),
            Some(Caller::Http { answer, .. }) => answer.is_closed(),
            None => true,
        }
    }

    /// Answers with scores.
    pub fn scores(self, served: &Arc<Model>, scores: &[f32], stages: Stages, tools: &mut Tools) {
        let Some(caller) = self.caller().take() else { return };
        match caller {
            Caller::Message(responder, traced, form) => {
                let is_encoded = match form {
                    ReplyForm::Recommend => {
                        tools.encode::<InferReply>(|reply| put_scores(served, scores, &stages, reply))
                    }
                    ReplyForm::Inference { id, is_binary } => {
                        let id = id.as_deref().unwrap_or("");
                        tools.encode::<ModelInferResponse>(|reply| {
                            response(served, scores, &stages, (id, is_binary), reply)
                        })
                    }
                };
                // Before its client has the answer.
                let code = if is_encoded { Code::Ok } else { Code::ResourceExhausted };
                let bytes = if is_encoded { tools.encoder.written().len() } else { 0 };
                traced.into_iter().for_each(|traced| {
                    traced.replied(bytes);
                    traced.end(code);
                });
                if is_encoded {
                    responder.reply_bytes(tools.encoder.written());
                } else {
                    responder.fail(&Status::new(code, "no memory for the reply"));
                }
            }
            Caller::Http { answer, id, is_binary } => {
                let (served, scores) = (Arc::clone(served), scores.to_vec());
                // Who left hears nothing.
                let _ = answer.send(Ok(Scored { served, scores, id, is_binary, stages }));
            }
        }
    }

    /// Answers with an error; false when it was answered before.
    pub fn refuse(&self, why: &Refusal) -> bool {
        let Some(caller) = self.caller().take() else { return false };
        match caller {
            Caller::Message(responder, traced, _) => {
                let status = why.status();
                traced.into_iter().for_each(|traced| traced.end(status.code()));
                responder.fail(&status);
            }
            // Who left hears nothing.
            Caller::Http { answer, .. } => drop(answer.send(Err(why.clone()))),
        }
        true
    }
}
