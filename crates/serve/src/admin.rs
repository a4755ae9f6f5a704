//! A port for operators and their tools: HTTP, and the routes that every such port has.
//!
//! | request | answer |
//! |---|---|
//! | `GET /registers` | all registers, as JSON |
//! | `GET /registers/NAME` | one register |
//! | `PUT /registers/NAME` | sets a live register to the body's text; with the token |
//!
//! **Who may ask.** Whoever reaches the port may read. What changes something wants `Authorization: Bearer TOKEN`, where TOKEN stands in a
//! file that only the server's user can read: the one that `MILLRACE_ADMIN_TOKEN` names, or [`token_file`]. Web pages may neither read nor
//! write, wherever their browser runs: a request must name this machine as its host (a number, `localhost`, this machine's name, or one of
//! `MILLRACE_ADMIN_HOSTS`), since a page can have its own name lead here (DNS rebinding), and must not come from another origin.

use crate::http::{Limits, Port};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use base::key::{Key, KeyError};
use base::registers::{Register, Registers, SetError, Shown};
use serde::Serialize;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LIMITS: Limits =
    Limits { connections: 64, head_timeout: Duration::from_secs(10), drain: Duration::ZERO, reserved: 8 };
/// How long a request may take: bodies are short.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Names a file with the token, in the form of a key.
const TOKEN_VARIABLE: &str = "MILLRACE_ADMIN_TOKEN";
/// Further names under which the port is asked, with commas.
const HOSTS_VARIABLE: &str = "MILLRACE_ADMIN_HOSTS";

/// The port, serving since it was made and until it is dropped.
pub struct Admin {
    port: Port,
    token: PathBuf,
    /// The file is this port's, and goes with it.
    made: bool,
}

impl Admin {
    /// Binds `address` and serves these routes from a new thread.
    ///
    /// # Errors
    /// The system's, for example when the address is taken; the token cannot be read or written.
    pub fn start(address: SocketAddr, routes: Router) -> io::Result<Admin> {
        let guard = Arc::new(std::sync::OnceLock::new());
        let routes = routes.layer(from_fn_with_state(Arc::clone(&guard), guarded));
        let port = Port::start("admin", address, routes, LIMITS)?;
        let (token, made) = match std::env::var_os(TOKEN_VARIABLE) {
            Some(file) => (PathBuf::from(file), false),
            None => (token_file(port.address()), true),
        };
        let key = if made { new_token(&token) } else { Key::read(&token) };
        let key = key.map_err(|error| match error {
            KeyError::Io(_, cause) => {
                io::Error::new(cause.kind(), format!("the token {}: {cause}", token.display()))
            }
            other => io::Error::other(other.to_string()),
        })?;
        guard.set(Guard { key, hosts: own_names() }).expect("it is set once");
        Ok(Admin { port, token, made })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The file with the token.
    pub fn token(&self) -> &path::Path {
        &self.token
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        if self.made {
            // Another server may have taken the name since; then it is not there.
            let _ = fs::remove_file(&self.token);
        }
    }
}

/// Where the token of the port at an address is: `admin-PORT.token` in a directory of this user.
pub fn token_file(address: SocketAddr) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    parent.join(format!("millrace-{user}")).join(format!("admin-{}.token", address.port()))
}

/// A new token in a file that replaces one of a server that had this port before.
fn new_token(file: &path::Path) -> Result<Key, KeyError> {
    let failed = |path: &path::Path, cause| KeyError::Io(path.to_owned(), cause);
    let folder = file.parent().expect("it is in a folder");
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(failed(folder, cause)),
        _ => {}
    }
    // Whoever made the folder could replace what is in it.
    let about = fs::symlink_metadata(folder).map_err(|cause| failed(folder, cause))?;
    let ours =
        about.is_dir() && about.uid() == rustix::process::getuid().as_raw() && about.mode() & 0o022 == 0;
    if !ours {
        let text = format!(
            "it must be a directory of this user that others cannot write: remove it, or name a token with {TOKEN_VARIABLE}"
        );
        return Err(failed(folder, io::Error::other(text)));
    }
    match fs::remove_file(file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(file, cause)),
        _ => {}
    }
    let key = Key::generate();
    key.write_new(file)?;
    Ok(key)
}

/// Whether a request may come from a web page that is not this server's: it has an origin that is another host's, or names a host that somebody
/// else may have given this machine's address. For servers that have no token.
pub fn is_foreign_page(headers: &HeaderMap) -> bool {
    let guard = Guard { key: Key::new([0; 16]), hosts: own_names() };
    guard.check(headers, false).is_err()
}

/// Names under which this machine may be asked.
fn own_names() -> Vec<String> {
    let named = std::env::var(HOSTS_VARIABLE).unwrap_or_default();
    let mut hosts: Vec<String> = named.split(',').map(|host| host.trim().to_owned()).collect();
    hosts.push("localhost".to_owned());
    hosts.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
    hosts.retain(|host| !host.is_empty());
    hosts
}

/// Who may ask what.
#[derive(Debug)]
struct Guard {
    key: Key,
    hosts: Vec<String>,
}

async fn guarded(
    State(guard): State<Arc<std::sync::OnceLock<Guard>>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(guard) = guard.get() else { return refuse(StatusCode::SERVICE_UNAVAILABLE, "the port starts") };
    let changes = !request.method().is_safe();
    if let Err((status, why)) = guard.check(request.headers(), changes) {
        return refuse(status, why);
    }
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

impl Guard {
    /// Whether a request with these headers may be answered.
    fn check(&self, headers: &HeaderMap, changes: bool) -> Result<(), (StatusCode, &'static str)> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_ours(host) {
            return Err((
                StatusCode::FORBIDDEN,
                "this name is not known here: ask by number, or start the server with MILLRACE_ADMIN_HOSTS=NAME",
            ));
        }
        let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
        if origin.is_some_and(|origin| !origin.eq_ignore_ascii_case(host)) {
            return Err((StatusCode::FORBIDDEN, "web pages may not ask here"));
        }
        if changes {
            let token = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
            let is_right = |token: &str| Key::from_hex(token.trim()).is_some_and(|key| key.is(&self.key));
            if !token.is_some_and(is_right) {
                return Err((
                    StatusCode::UNAUTHORIZED,
                    "this changes something: send the server's token, as in curl -H \"Authorization: Bearer $(cat FILE)\"; \
                     the server printed which file when it started",
                ));
            }
        }
        Ok(())
    }

    /// Whether a Host header names this machine: no name that somebody else gives out.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
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

/// [`Shown`] for programs.
#[derive(Serialize)]
#[serde(remote = "Shown")]
struct ShownAs {
    name: &'static str,
    value: String,
    number: u64,
    unit: &'static str,
    range: [u64; 2],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    choices: &'static [&'static str],
    default: String,
    live: bool,
    help: &'static str,
}

/// A register as JSON.
#[derive(Serialize)]
pub struct Row(#[serde(with = "ShownAs")] pub Shown);

/// Registers as JSON.
pub fn rows(shown: Vec<Shown>) -> Vec<Row> {
    shown.into_iter().map(Row).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// The status of an answer to this request.
    fn ask(address: SocketAddr, method: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{method} /thing HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    fn start() -> Admin {
        let routes = Router::new().route("/thing", get(async || "read").put(async || "written"));
        Admin::start("127.0.0.1:0".parse().expect("an address"), routes).expect("it starts")
    }

    /// A page that has its own name lead here set registers, and one of another origin reloaded models.
    #[test]
    fn web_pages_may_not_ask_and_changes_need_the_token() {
        let admin = start();
        let at = admin.address();
        let port = at.port();
        let token = fs::read_to_string(admin.token()).expect("a file");
        let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
        let host = format!("Host: 127.0.0.1:{port}\r\n");
        assert_eq!(ask(at, "GET", &host), "200");
        assert_eq!(ask(at, "GET", "Host: localhost\r\n"), "200");
        assert_eq!(ask(at, "GET", &format!("Host: [::1]:{port}\r\n")), "200");
        assert_eq!(ask(at, "PUT", &format!("{host}{bearer}")), "200");
        for (method, headers, status) in [
            ("GET", "Host: evil.example\r\n".to_owned(), "403"),
            ("GET", format!("Host: evil.example:{port}\r\n"), "403"),
            ("GET", String::new(), "403"),
            ("GET", format!("{host}Origin: http://evil.example\r\n"), "403"),
            ("GET", format!("{host}Origin: null\r\n"), "403"),
            ("PUT", host.clone(), "401"),
            ("PUT", format!("{host}Authorization: Bearer 00112233445566778899aabbccddeeff\r\n"), "401"),
            ("PUT", format!("{host}Authorization: Bearer \r\n"), "401"),
            ("PUT", format!("Host: evil.example\r\n{bearer}"), "403"),
            ("PUT", format!("{host}{bearer}Origin: http://evil.example\r\n"), "403"),
        ] {
            assert_eq!(ask(at, method, &headers), status, "{method} {headers}");
        }
        assert_eq!(ask(at, "PUT", &format!("{host}{bearer}Origin: http://127.0.0.1:{port}\r\n")), "200");
        let file = admin.token().to_owned();
        assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o777, 0o600);
        drop(admin);
        assert!(!file.exists(), "it goes with the port");
    }

    /// Three thousand connections that were held took the process's descriptors, and nobody else was answered.
    #[test]
    fn idle_connections_make_room() {
        let admin = start();
        let held: Vec<_> = (0..3 * LIMITS.connections)
            .map(|_| {
                let mut stream = TcpStream::connect(admin.address()).expect("it listens");
                // Whether it is closed by now or not.
                let _ = stream.write_all(b"GET /thing HTTP/1.1\r\nHos");
                stream
            })
            .collect();
        assert_eq!(ask(admin.address(), "GET", "Host: localhost\r\n"), "200");
        let closed = held.iter().filter(|stream| {
            stream.set_nonblocking(true).expect("a socket");
            // With bytes of ours that nobody read the end is an error.
            !matches!((&mut &**stream).read(&mut [0; 16]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
        });
        assert!(closed.count() >= LIMITS.connections, "the oldest were closed");
    }
}
