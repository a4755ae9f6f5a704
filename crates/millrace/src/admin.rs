//! A port for operators and their tools: HTTP on a thread of its own, and the routes that every such port has.
//!
//! | request | answer |
//! |---|---|
//! | `GET /registers` | all registers, as JSON |
//! | `GET /registers/NAME` | one register |
//! | `PUT /registers/NAME` | sets a live register to the body's text |
//!
//! There is no authentication: whoever reaches the port is an operator.

use crate::registers::{Row, SetError, rows};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use base::registers::{Register, Registers};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// The port, serving since it was made and until it is dropped.
pub struct Admin {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Admin {
    /// Binds `address` and serves these routes from a new thread.
    ///
    /// # Errors
    /// The system's, for example when the address is taken.
    pub fn start(address: SocketAddr, routes: Router) -> io::Result<Admin> {
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
                    served = axum::serve(listener, routes) => served.expect("axum's accept loop does not fail"),
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

/// Something whose registers a port shows and sets.
pub trait Tuned: Send + Sync + 'static {
    /// Its list of registers.
    type Id: Register;

    /// Their values.
    fn registers(&self) -> &Registers<Self::Id>;

    /// One was set.
    fn register_changed(&self, _name: &str) {}
}

/// The routes of registers.
pub fn register_routes<T: Tuned>() -> Router<Arc<T>> {
    Router::new()
        .route("/registers", get(registers::<T>))
        .route("/registers/{name}", get(register::<T>).put(set_register::<T>))
        .layer(DefaultBodyLimit::max(4096))
}

async fn registers<T: Tuned>(State(tuned): State<Arc<T>>) -> impl IntoResponse {
    Json(rows(tuned.registers().show()))
}

async fn register<T: Tuned>(
    State(tuned): State<Arc<T>>,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    Ok(Json(Row(tuned.registers().show_one(&name)?)).into_response())
}

async fn set_register<T: Tuned>(
    State(tuned): State<Arc<T>>,
    Path(name): Path<String>,
    text: String,
) -> Result<Response, Refused> {
    tuned.registers().set_live(&name, &text)?;
    tuned.register_changed(&name);
    Ok(Json(Row(tuned.registers().show_one(&name)?)).into_response())
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
