//! The admin port: metrics, statistics, registers and health over HTTP, for operators and their tools.
//!
//! | request | answer |
//! |---|---|
//! | `GET /healthz` | `ok` while the node serves, 503 while it drains |
//! | `GET /metrics` | Prometheus text |
//! | `GET /stats.json` | everything counted, as JSON |
//! | `GET /registers` | all registers, as JSON |
//! | `GET /registers/NAME` | one register |
//! | `PUT /registers/NAME` | sets a live register to the body's text |
//!
//! It runs on a thread of its own with a single-threaded runtime, takes the engine's lock for microseconds, and binds to
//! loopback unless told otherwise. There is no authentication: whoever reaches the port is an operator.

use super::metrics;
use super::shared::Shared;
use crate::registers::{Row, SetError, rows};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// The admin port, serving since it was made and until it is dropped.
pub struct Admin {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Admin {
    /// Binds `address` and serves it from a new thread.
    ///
    /// # Errors
    /// The system's, for example when the address is taken.
    pub fn start(address: SocketAddr, shared: Arc<Shared>) -> io::Result<Admin> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a nonblocking listener");
                let stopped = async {
                    // A dropped sender stops the port just as well.
                    let _ = stopped.await;
                };
                // Ends at the signal, not when the last idle keep-alive connection does.
                tokio::select! {
                    served = axum::serve(listener, routes(shared)) => served.expect("axum's accept loop does not fail"),
                    () = stopped => (),
                }
            });
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(serve)?;
        Ok(Admin { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread only ever ends by the signal above; a panic in it was already printed.
            let _ = thread.join();
        }
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_text))
        .route("/stats.json", get(stats))
        .route("/registers", get(registers))
        .route("/registers/{name}", get(register).put(set_register))
        .layer(DefaultBodyLimit::max(4096))
        .with_state(shared)
}

async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics_text(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        metrics::text(&shared.report(), &shared.registers.show()),
    )
}

async fn stats(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    Json(shared.report())
}

async fn registers(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    Json(rows(shared.registers.show()))
}

async fn register(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Result<Response, Refused> {
    Ok(Json(Row(shared.registers.show_one(&name)?)).into_response())
}

async fn set_register(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    text: String,
) -> Result<Response, Refused> {
    shared.registers.set_live(&name, &text)?;
    shared.register_changed(&name);
    Ok(Json(Row(shared.registers.show_one(&name)?)).into_response())
}

/// A refused register as an HTTP answer.
struct Refused(SetError);

impl From<SetError> for Refused {
    fn from(e: SetError) -> Refused {
        Refused(e)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0 {
            SetError::Unknown { .. } => StatusCode::NOT_FOUND,
            SetError::NotAValue(..) | SetError::OutOfRange(..) => StatusCode::BAD_REQUEST,
            SetError::NotLive(..) => StatusCode::CONFLICT,
        };
        (status, format!("{}\n", self.0)).into_response()
    }
}
