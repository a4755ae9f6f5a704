//! Who may ask what over HTTP, where there is a file of rights: a model is for those who may have it answer, metrics and the statistics of all models for
//! those who may look, loading and unloading for those who may change things; what says nothing of a model is for whoever may do anything here.

use super::reply;
use crate::admin::peer;
use crate::http::Proved;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use base::rights::{Ask, ServiceRights};

/// Lets through what may be asked.
pub async fn guarded(
    State(rights): State<ServiceRights>,
    named: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    // A path that names none, or one that is no text: there is no such model.
    let model = named.iter().flatten().find(|(key, _)| *key == "model").map(|(_, model)| model);
    let what = match (request.uri().path(), model) {
        ("/metrics" | "/v2/models/stats", _) => Ask::Look,
        (path, Some(_)) if path.starts_with("/v2/repository/") => Ask::Administer,
        (_, Some(model)) => Ask::Infer(model),
        (_, None) => Ask::Any,
    };
    let mut peer = peer(&rights, request.extensions().get::<Proved>(), request.headers());
    if peer.may(what).is_err() {
        let text = format!("no right to {what}: the server's file of rights must allow it");
        return reply::error(StatusCode::FORBIDDEN, &text);
    }
    next.run(request).await
}
