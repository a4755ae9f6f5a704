//! Paths.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v2` | what the server is |
//! | `GET /v2/health/live`, `/v2/health/ready` | 200 |
//! | `GET /v2/models/M[/versions/V]` | what the model takes and gives |
//! | `GET /v2/models/M[/versions/V]/ready` | 200 |
//! | `POST /v2/models/M[/versions/V]/infer` | scores |
//! | `POST /v2/repository/index` | the model |
//! | `POST /v2/repository/models/M/load` | loads it anew; 400 if it does not load, and the old one goes on |
//!
//! Errors are `{"error": "…"}`.
//!
//! Bounds: `rec.in_flight` requests whose bodies are read or that are under way, of `rec.body` bytes each, `rec.held` together.

use super::reply::{self, JSON_LENGTH};
use crate::rec::registers::Id;
use crate::rec::serve::counters::add;
use crate::rec::serve::edge::Edge;
use crate::rec::serve::job::{Input, Reply};
use crate::rec::serve::preprocess::is_asked_for;
use crate::rec::serve::refusal::Refusal;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// The HTTP edge.
pub struct Http {
    edge: Arc<Edge>,
    places: Semaphore,
}

/// What a path names.
#[derive(Deserialize)]
struct Asked {
    model: String,
    version: Option<String>,
}

impl Http {
    /// The routes of an edge.
    pub fn routes(edge: Arc<Edge>) -> Router {
        let places = Semaphore::new(edge.registers.size(Id::InFlight));
        let mut routes = Router::new()
            .route("/v2", get(async || Json(reply::server())))
            .route("/v2/health/live", get(async || StatusCode::OK))
            .route("/v2/health/ready", get(async || StatusCode::OK))
            .route("/v2/repository/index", post(index))
            .route("/v2/repository/models/{model}/load", post(load));
        for model in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
            routes = routes
                .route(model, get(metadata))
                .route(&format!("{model}/ready"), get(ready))
                .route(&format!("{model}/infer"), post(infer));
        }
        routes
            .fallback(async || reply::error(StatusCode::NOT_FOUND, "there is no such path; see GET /v2"))
            .with_state(Arc::new(Http { edge, places }))
    }
}

async fn metadata(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    let served = http.edge.shelf.current();
    match is_asked_for(&asked.model, asked.version.as_deref(), &served) {
        Ok(()) => Json(reply::model(&served, &http.edge.counters)).into_response(),
        Err(why) => reply::refusal(&why),
    }
}

async fn ready(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    let served = http.edge.shelf.current();
    match is_asked_for(&asked.model, asked.version.as_deref(), &served) {
        Ok(()) => Json(json!({ "name": served.name, "ready": true })).into_response(),
        Err(why) => reply::refusal(&why),
    }
}

async fn index(State(http): State<Arc<Http>>) -> Response {
    let served = http.edge.shelf.current();
    Json(json!([{ "name": served.name, "version": served.version, "state": "READY", "reason": "" }]))
        .into_response()
}

async fn load(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    if let Err(why) = is_asked_for(&asked.model, None, &http.edge.shelf.current()) {
        return reply::refusal(&why);
    }
    // A model takes its time; other requests go on meanwhile.
    let edge = Arc::clone(&http.edge);
    match tokio::task::spawn_blocking(move || edge.shelf.reload().map(|_| ())).await {
        Ok(Ok(())) => {
            let served = http.edge.shelf.current();
            let (name, version, generation) = (&served.name, &served.version, served.generation);
            Json(json!({ "name": name, "version": version, "generation": generation })).into_response()
        }
        Ok(Err(why)) => {
            let text = format!("the model does not load, the old one goes on: {why}");
            reply::error(StatusCode::BAD_REQUEST, &text)
        }
        Err(_) => {
            reply::error(StatusCode::INTERNAL_SERVER_ERROR, "the load came to harm, the old model goes on")
        }
    }
}

async fn infer(
    State(http): State<Arc<Http>>,
    Path(Asked { model, version }): Path<Asked>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match http.infer(model, version, &headers, body).await {
        Ok(response) => response,
        Err(why) => reply::refusal(&why),
    }
}

impl Http {
    async fn infer(
        &self,
        model: String,
        version: Option<String>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, Refusal> {
        let _place = self.places.try_acquire().map_err(|_| {
            add(&self.edge.counters.refused, 1);
            Refusal::Busy("rec.in_flight requests over HTTP")
        })?;
        let header = match headers.get(JSON_LENGTH) {
            None => None,
            Some(value) => {
                let length = value.to_str().ok().and_then(|text| text.parse().ok());
                Some(length.ok_or_else(|| {
                    Refusal::Malformed(
                        "header Inference-Header-Content-Length: expected a number of bytes".to_owned(),
                    )
                })?)
            }
        };
        let most = self.edge.registers.size(Id::Body);
        let body = to_bytes(body, most).await.map_err(|error| {
            add(&self.edge.counters.refused, 1);
            let source = std::error::Error::source(&error);
            match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => Refusal::TooLong(most),
                false => Refusal::Malformed(format!("the body did not arrive: {error}")),
            }
        })?;
        let (answer, answered) = oneshot::channel();
        let reply = Reply::Http { answer, id: None, is_binary: false };
        self.edge.submit(Input::Http { body, header, model, version }, reply);
        let scored = answered.await.map_err(|_| Refusal::Internal("the request was dropped"))??;
        Ok(reply::scored(&scored))
    }
}
