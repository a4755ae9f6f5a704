//! Who may ask what at an admin port: the token, and pages in browsers.

use crate::http::Proved;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base::key::{Key, KeyError};
use base::rights::{Ask, Peer, ServiceRights};
use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{self, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a request may take: bodies are short.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Names a file with the token, in the form of a key.
pub(super) const TOKEN_VARIABLE: &str = "MILLRACE_ADMIN_TOKEN";
/// Further names under which the port is asked, with commas.
const HOSTS_VARIABLE: &str = "MILLRACE_ADMIN_HOSTS";

/// Where the token of the port at an address is: `admin-PORT.token` in a directory of this user.
pub fn token_file(address: SocketAddr) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    parent.join(format!("millrace-{user}")).join(format!("admin-{}.token", address.port()))
}

/// The token of the port at an address, for whoever asks there: of the file that MILLRACE_ADMIN_TOKEN names, or where a server of this user on this machine
/// has it.
///
/// # Errors
/// It cannot be read. A sentence.
pub fn token_for(address: SocketAddr) -> Result<String, String> {
    let file = std::env::var_os(TOKEN_VARIABLE).map_or_else(|| token_file(address), PathBuf::from);
    let text = fs::read_to_string(&file);
    text.map(|text| text.trim().to_owned()).map_err(|cause| format!("its token {}: {cause}", file.display()))
}

/// A new token in a file that replaces one of a server that had this port before.
pub(super) fn new_token(file: &path::Path) -> Result<Key, KeyError> {
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
    Guard::new(Key::new([0; 16])).check(headers, false, None).is_err()
}

/// What who may not look hears.
const NO_RIGHT_TO_LOOK: &str = "no right to look here: the file of rights must allow you admin = \"read\"; \
    prove who you are by a certificate, or send a token, as in curl -H \"Authorization: Bearer TOKEN\"";
/// What who may not change anything hears.
const NO_RIGHT_TO_CHANGE: &str = "no right to change anything here: the file of rights must allow you admin = \"write\", or send the server's token; \
    the server printed which file it is in when it started";

/// The token that is sent with a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    // The word's case does not matter (RFC 9110, 11.1).
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who sends a request with these headers, by a connection that has proved this.
pub(crate) fn peer(rights: &ServiceRights, proved: Option<&Proved>, headers: &HeaderMap) -> Peer {
    let identities = proved.map_or_else(Vec::new, |proved| proved.0.to_vec());
    rights.bearer(identities, bearer(headers).map(str::as_bytes))
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
pub(super) struct Guard {
    key: Key,
    hosts: Vec<String>,
    rights: Option<ServiceRights>,
}

impl Guard {
    /// Of a port whose token this is.
    pub(super) fn new(key: Key) -> Guard {
        Guard { key, hosts: own_names(), rights: None }
    }

    /// Who asks may do what these say, if there are any.
    pub(super) fn with_rights(self, rights: Option<ServiceRights>) -> Guard {
        Guard { rights, ..self }
    }
}

/// Lets through what may be asked, once the port has its guard.
pub(super) async fn guarded(
    State(guard): State<Arc<OnceLock<Guard>>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(guard) = guard.get() else { return refuse(StatusCode::SERVICE_UNAVAILABLE, "the port starts") };
    let changes = !request.method().is_safe();
    let proved = request.extensions().get::<Proved>();
    if let Err((status, why)) = guard.check(request.headers(), changes, proved) {
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
    fn check(
        &self,
        headers: &HeaderMap,
        changes: bool,
        proved: Option<&Proved>,
    ) -> Result<(), (StatusCode, &'static str)> {
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
        let is_right = |token: &str| Key::from_hex(token).is_some_and(|key| key.is(&self.key));
        let is_ours = |headers| bearer(headers).is_some_and(is_right);
        if let Some(rights) = &self.rights {
            let what = if changes { Ask::Administer } else { Ask::Look };
            return match is_ours(headers) || peer(rights, proved, headers).may(what).is_ok() {
                true => Ok(()),
                false if changes => Err((StatusCode::FORBIDDEN, NO_RIGHT_TO_CHANGE)),
                false => Err((StatusCode::FORBIDDEN, NO_RIGHT_TO_LOOK)),
            };
        }
        if changes && !is_ours(headers) {
            return Err((
                StatusCode::UNAUTHORIZED,
                "this changes something: send the server's token, as in curl -H \"Authorization: Bearer $(cat FILE)\"; \
                 the server printed which file when it started",
            ));
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
