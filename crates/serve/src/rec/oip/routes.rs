//! Paths.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v2` | what the server is |
//! | `GET /v2/health/live`, `/v2/health/ready` | 200 |
//! | `GET /v2/models/M[/versions/V]` | what the model takes and gives |
//! | `GET /v2/models/M[/versions/V]/ready` | 200 |
//! | `GET /v2/models/M[/versions/V]/stats`, `/v2/models/stats` | what was counted |
//! | `POST /v2/models/M[/versions/V]/infer` | scores |
//! | `GET /v2/models/M[/versions/V]/config` | how the model is configured |
//! | `POST /v2/repository/index` | the models |
//! | `GET /metrics` | the server's metrics, as Prometheus text |
//! | `POST /v2/repository/models/M/load` | loads it anew; 400 if it does not load, and the old one goes on |
//! | `POST /v2/repository/models/M/unload` | it is not served until it is loaded; 400 of a server of one model |
//!
//! Errors are `{"error": "…"}`. A request for scores may be compressed with gzip, and so is its answer where the client takes that.
//!
//! Bounds: `rec.in_flight` requests under way, of `rec.body` bytes each; bodies that are there or on their way have `rec.held` bytes together,
//! and `rec.body_timeout` to come. When there is no room for another, the one of those on their way that has the most is refused. Bodies are read on
//! beyond [`LARGE_BODY`] bytes in turns, as many at once as fill half of `rec.held`, and while they come: small ones find room and time beside them.

use super::guard::guarded;
use super::reply::{self, JSON_LENGTH};
use crate::admin::is_foreign_page;
use crate::gzip::{self, GzipError};
use crate::metrics::Format;
use crate::rec::counters::add;
use crate::rec::edge::Edge;
use crate::rec::held::{Coming, Hold};
use crate::rec::job::{Input, Reply};
use crate::rec::preprocess::Place;
use crate::rec::refusal::Refusal;
use crate::rec::registers::Id;
use crate::rec::shelf::{LoadError, Model, Shelf};
use crate::rec::traced::{Traced, part};
use axum::Router;
use axum::body::HttpBody as _;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use base::Clock;
use base::rights::ServiceRights;
use base::trace::{Context, TRACEPARENT};
use fabric::status::Code;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// A body with more bytes than this is large.
const LARGE_BODY: usize = 256 << 10;
/// From one piece of a large body to the next.
const PIECE_TIMEOUT: Duration = Duration::from_secs(1);

/// The HTTP edge.
pub struct Http {
    edge: Arc<Edge>,
    places: Semaphore,
    /// Large bodies that may be read at once.
    large: Semaphore,
    body_timeout: Duration,
}

/// What a path names.
#[derive(Deserialize)]
struct Asked {
    model: String,
    version: Option<String>,
}

impl Http {
    /// The routes of an edge.
    pub fn routes(edge: Arc<Edge>, rights: Option<ServiceRights>) -> Router {
        let places = Semaphore::new(edge.registers.size(Id::InFlight));
        let (held, body) = (edge.registers.size(Id::Held), edge.registers.size(Id::Body));
        let large = Semaphore::new((held / 2 / body.max(LARGE_BODY)).max(1));
        let body_timeout = Duration::from_micros(edge.registers.read(Id::BodyTimeout));
        let mut routes = Router::new()
            .route("/v2", get(async || Json(reply::server())))
            .route("/v2/health/live", get(async || StatusCode::OK))
            .route("/v2/health/ready", get(async || StatusCode::OK))
            .route("/v2/repository/index", post(index))
            .route("/v2/models/stats", get(all_statistics))
            .route("/metrics", get(metrics))
            .route("/v2/repository/models/{model}/load", post(load))
            .route("/v2/repository/models/{model}/unload", post(unload));
        for model in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
            routes = routes
                .route(model, get(metadata))
                .route(&format!("{model}/ready"), get(ready))
                .route(&format!("{model}/stats"), get(statistics))
                .route(&format!("{model}/config"), get(configuration))
                .route(&format!("{model}/infer"), post(infer));
        }
        let routes = routes
            .fallback(async || reply::error(StatusCode::NOT_FOUND, "there is no such path; see GET /v2"))
            .with_state(Arc::new(Http { edge, places, large, body_timeout }));
        match rights {
            Some(rights) => routes.layer(from_fn_with_state(rights, guarded)),
            None => routes,
        }
    }
}

/// The answer about the model that is asked for.
fn about(http: &Http, asked: &Asked, tell: impl FnOnce(&[Arc<Model>]) -> Value) -> Response {
    match http.edge.shelf.versions(&asked.model, asked.version.as_deref()) {
        Ok(versions) => Json(tell(&versions)).into_response(),
        Err(why) => reply::refusal(&why),
    }
}

async fn metadata(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    about(&http, &asked, |versions| reply::model(versions, &http.edge.counters))
}

async fn configuration(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    about(&http, &asked, |versions| {
        reply::configuration(versions.last().expect("it was found"), &http.edge.registers)
    })
}

async fn ready(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    about(&http, &asked, |versions| json!({ "name": versions[0].name, "ready": true }))
}

async fn metrics(State(http): State<Arc<Http>>) -> Response {
    let edge = Arc::clone(&http.edge);
    // The engine answers between two of its passes.
    match tokio::task::spawn_blocking(move || edge.metrics()).await {
        Ok(text) => ([(header::CONTENT_TYPE, Format::Prometheus.content_type())], text).into_response(),
        Err(_) => reply::error(StatusCode::INTERNAL_SERVER_ERROR, "the metrics came to harm"),
    }
}

async fn all_statistics(State(http): State<Arc<Http>>) -> Response {
    Json(reply::statistics(&http.edge.shelf.all())).into_response()
}

async fn statistics(State(http): State<Arc<Http>>, Path(asked): Path<Asked>) -> Response {
    about(&http, &asked, reply::statistics)
}

/// The list of the repository, which is read for it.
async fn index(State(http): State<Arc<Http>>) -> Response {
    let edge = Arc::clone(&http.edge);
    match tokio::task::spawn_blocking(move || edge.shelf.index()).await {
        Ok(index) => Json(reply::index(index)).into_response(),
        Err(_) => reply::error(StatusCode::INTERNAL_SERVER_ERROR, "the repository came to harm"),
    }
}

async fn load(http: State<Arc<Http>>, asked: Path<Asked>, headers: HeaderMap) -> Response {
    change(http, asked, headers, |shelf, name| {
        let model = shelf.load(name)?;
        Ok(json!({ "name": model.name, "version": model.version, "generation": model.generation }))
    })
    .await
}

async fn unload(http: State<Arc<Http>>, asked: Path<Asked>, headers: HeaderMap) -> Response {
    change(http, asked, headers, |shelf, name| shelf.unload(name).map(|()| json!({}))).await
}

async fn change(
    State(http): State<Arc<Http>>,
    Path(asked): Path<Asked>,
    headers: HeaderMap,
    change: impl FnOnce(&Shelf, &str) -> Result<Value, LoadError> + Send + 'static,
) -> Response {
    // A page in somebody's browser can send this without asking anybody.
    if is_foreign_page(&headers) {
        return reply::error(
            StatusCode::FORBIDDEN,
            "models are not loaded for web pages; see MILLRACE_ADMIN_HOSTS",
        );
    }
    // A model takes its time; other requests go on meanwhile.
    let edge = Arc::clone(&http.edge);
    match tokio::task::spawn_blocking(move || change(&edge.shelf, &asked.model)).await {
        Ok(Ok(value)) => Json(value).into_response(),
        Ok(Err(LoadError::Refused(why))) => reply::refusal(&why),
        Ok(Err(why)) => reply::error(StatusCode::BAD_REQUEST, &why.to_string()),
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

/// The bytes of a body of `most` at most, counted while they come: what is not there yet holds nothing.
async fn collect(mut body: Body, most: usize, http: &Http) -> Result<(Bytes, Hold), Refusal> {
    let edge = &http.edge;
    let mut coming: Option<Coming<'_>> = None;
    let mut turn = None;
    loop {
        let piece = match &turn {
            Some(_) => tokio::time::timeout(PIECE_TIMEOUT, body.frame()).await.map_err(|_| Refusal::Slow)?,
            None => body.frame().await,
        };
        let Some(frame) = piece else { break };
        let frame = frame.map_err(|error| Refusal::Malformed(format!("the body did not arrive: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let came = coming.as_ref().map_or(0, Coming::len) + data.len();
        if came > most {
            return Err(Refusal::TooLong(most));
        }
        match &mut coming {
            // Most come in one piece, and are not on their way to anybody's notice.
            None if body.is_end_stream() => {
                let mut hold = edge.hold();
                edge.held.take(&mut hold, data.len())?;
                // A copy: what came may be a part of a larger buffer.
                return Ok((Bytes::copy_from_slice(&data), hold));
            }
            None => coming = Some(edge.held.begin(&data, edge.hold())?),
            Some(coming) => coming.append(&data)?,
        }
        if came > LARGE_BODY && turn.is_none() && !body.is_end_stream() {
            // What waits here is not read: its client finds its connection full.
            turn = Some(http.large.acquire().await.expect("it is never closed"));
            let rest = body.size_hint().exact().map_or(0, |rest| rest.min((most - came) as u64) as usize);
            coming.as_mut().map_or(Ok(()), |coming| coming.expect(came + rest))?;
        }
        if turn.is_some() {
            // There is a thread for all connections, and the next piece may be here already.
            tokio::task::yield_now().await;
        }
    }
    coming.map_or_else(|| Ok((Bytes::new(), edge.hold())), Coming::end)
}

/// A body as it was before its client compressed it, of `most` bytes at most.
async fn unpacked(encoding: Option<&[u8]>, body: Bytes, most: usize) -> Result<Bytes, Refusal> {
    match encoding {
        None | Some(b"identity") => return Ok(body),
        Some(b"gzip" | b"x-gzip") => {}
        Some(other) => {
            let other = String::from_utf8_lossy(&other[..other.len().min(100)]).into_owned();
            return Err(Refusal::Encoding(other));
        }
    }
    let unpack = move || match gzip::unpacked(&body, most) {
        Ok(body) => Ok(body.into()),
        Err(GzipError::TooLong(most)) => Err(Refusal::TooLong(most)),
        Err(error) => {
            Err(Refusal::Malformed(format!("the body is not what its Content-Encoding says: {error}")))
        }
    };
    // There is a thread for all connections, and what is short may become long.
    let unpacked = tokio::task::spawn_blocking(unpack).await;
    unpacked.unwrap_or(Err(Refusal::Internal("the body was not unpacked")))
}

/// Whether a client takes answers that are compressed with gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|list| list.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

impl Http {
    /// A request that leaves spans is answered with its own `traceparent`.
    async fn infer(
        &self,
        model: String,
        version: Option<String>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, Refusal> {
        let caller = headers.get(TRACEPARENT).and_then(|value| Context::parse(value.as_bytes()));
        let Some(traced) = self.edge.trace("infer", caller) else {
            return self.infer_in(model, version, headers, body, None).await;
        };
        let own = traced.scope().and_then(|scope| scope.context().emit().parse().ok());
        let mut answer = self.infer_in(model, version, headers, body, Some(&traced)).await;
        if let (Ok(response), Some(own)) = (&mut answer, own) {
            response.headers_mut().insert(TRACEPARENT, own);
        }
        traced.end(answer.as_ref().map_or_else(|why| why.status().code(), |_| Code::Ok));
        answer
    }

    async fn infer_in(
        &self,
        model: String,
        version: Option<String>,
        headers: &HeaderMap,
        body: Body,
        traced: Option<&Traced>,
    ) -> Result<Response, Refusal> {
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
        let body = match tokio::time::timeout(self.body_timeout, collect(body, most, self)).await {
            Ok(collected) => collected,
            Err(_) => Err(Refusal::Slow),
        };
        let (body, hold) = body.inspect_err(|_| add(&self.edge.counters.refused, 1))?;
        let encoding = headers.get(header::CONTENT_ENCODING).map(|name| name.as_bytes());
        let body =
            unpacked(encoding, body, most).await.inspect_err(|_| add(&self.edge.counters.refused, 1))?;
        let takes_gzip = takes_gzip(headers);
        // Only now: who does not finish sending keeps nobody else out.
        let _place = self.places.try_acquire().map_err(|_| {
            add(&self.edge.counters.refused, 1);
            Refusal::Busy("rec.in_flight requests over HTTP")
        })?;
        let (answer, answered) = oneshot::channel();
        let scope = traced.and_then(|traced| traced.scope().cloned());
        traced.into_iter().for_each(|traced| traced.read(body.len()));
        self.edge.submit(Input::Http { body, header, model, version }, Reply::http(answer, scope), hold);
        self.edge.ring();
        let scored = answered.await.map_err(|_| Refusal::Internal("the request was dropped"))??;
        let Some(traced) = traced else { return Ok(reply::scored(&scored, takes_gzip)) };
        let (clock, begun) = (Clock::shared(), Clock::shared().now());
        let response = reply::scored(&scored, takes_gzip);
        traced.replied(size_of_val(&*scored.scores));
        part(traced.scope(), "answer", Place::Edge, begun, clock.now());
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_client_says_whether_it_takes_gzip() {
        let takes = |said: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(said));
            takes_gzip(&headers)
        };
        for said in ["gzip", "deflate, gzip", "GZIP;q=0.5, identity", "br , gzip ; q=1"] {
            assert!(takes(said), "{said}");
        }
        for said in ["", "identity", "gzip;q=0", "deflate", "gzip;q=x", "xgzip"] {
            assert!(!takes(said), "{said}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
