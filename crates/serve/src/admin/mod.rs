//! The port for operators and their tools, the same for every server: `--admin [ADDR:]PORT`; by https where the server has a certificate.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | who this is and what the port answers: for browsers as HTML, else as text |
//! | `GET /metrics` | Prometheus' text, or OpenMetrics where `Accept` wants it more ([`crate::metrics`]) |
//! | `GET /registers`, `/registers/NAME` | all registers, one, as JSON |
//! | `PUT /registers/NAME` | sets a live register to the body's text; with the token. 409: it is read at the start only |
//! | `GET /healthz` | 200 while the server's loops turn; 503, and as JSON which stall, or why it will never serve again |
//! | `GET /readyz` | 200 while clients are served; 503, and why not: it starts, it drains |
//! | `PUT /stop` | has the process answer what has come, and end; with the token. Of a process whose shell this is ([`crate::shell`]) |
//! | `GET /record`, `PUT /record` | of a process that records requests ([`crate::recorder`]): how far that is; what is recorded from now on, with the token |
//! | `GET /trace`, `/trace.otlp` | spans of sampled requests, where some service leaves them: for Perfetto, for OpenTelemetry |
//! | `GET /live` | all of this in a browser, as it changes |
//! | `GET /cluster` | how the members of its cluster are, as `millrace cluster status --json` says it |
//! | `GET /history` | the last hour of the metrics, as JSON: a number every ten seconds |
//!
//! What a server has besides is [`Routes::with`].
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | the port and its routes |
//! | `guard` | who may ask what |
//! | `registers` | registers as JSON, and set |
//! | `health` | whether loops turn |
//! | `index` | the page at `/` |
//! | `ask` | questions that a loop answers between two turns |
//! | `collector` | the thread that waits for answers |
//! | `shown` | what a process shows, at the port and to whoever else takes it |
//! | `traces` | spans, of all services or of one |
//! | `live`, `history` | the page in a browser; what metrics were in the last hour |
//!
//! **Who may ask.** Whoever reaches the port may read, unless a file of rights says who may: then reading wants `admin = "read"`, and changing
//! `admin = "write"` or the port's token, which has every right here. What changes something wants `Authorization: Bearer TOKEN`, where TOKEN stands in a
//! file that only the server's user can read: the one that `MILLRACE_ADMIN_TOKEN` names, or [`token_file`]. Web pages may neither read nor
//! write, wherever their browser runs: a request must name this machine as its host (a number, `localhost`, this machine's name, or one of
//! `MILLRACE_ADMIN_HOSTS`), since a page can have its own name lead here (DNS rebinding), and must not come from another origin.

pub mod ask;
mod collector;
mod guard;
pub mod health;
mod history;
mod index;
mod live;
mod registers;
mod shown;
#[cfg(test)]
mod tests;
mod traces;

pub use crate::http::PortAt;
pub use ::client::web::parse_address;
#[cfg(feature = "rpc")]
pub(crate) use guard::bearer;
#[cfg(feature = "rec")]
pub(crate) use guard::peer;
pub use guard::{is_foreign_page, token_file, token_for};
pub use index::Entry;
pub use registers::{Row, Tuned, rows};

use crate::http::{Limits, Port};
use crate::metrics::{Format, Page};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get};
use base::key::{Key, KeyError};
use base::rights::ServiceRights;
use base::trace::Tracer;
use collector::Collector;
use guard::{Guard, TOKEN_VARIABLE, guarded, new_token};
use health::{Check, Pulse, Readiness, STALL_TIMEOUT, stalled};
use index::{Index, Moment, wants_html};
use live::Cluster;
use registers::Refused;
pub(crate) use shown::Shown;
use shown::{Asked, Owner};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{self, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
pub(crate) use traces::unix_offset_ns;

const LIMITS: Limits =
    Limits { connections: 64, head_timeout: Duration::from_secs(10), drain: Duration::ZERO, reserved: 8 };
/// What every port answers: path, and what that is.
const COMMON: [(&str, &str); 10] = [
    ("GET /", "this list; for browsers with who this is"),
    ("GET /live", "the live page, for a browser"),
    ("GET /history", "the last hour of the metrics, as JSON"),
    ("GET /cluster", "how the members of its cluster are, as JSON; 404 if no file says who they are"),
    ("GET /metrics", "metrics, as Prometheus text or OpenMetrics"),
    ("GET /registers", "all registers, as JSON"),
    ("GET /registers/NAME", "one register"),
    ("PUT /registers/NAME", "sets a live register to the body's text; with the token"),
    ("GET /healthz", "200 while the server's loops turn; 503: which stall, or why it is over"),
    ("GET /readyz", "200 while clients are served; 503: why not"),
];

type Text = Arc<dyn Fn() -> String + Send + Sync>;
/// The type of JSON, for [`Routes::text`].
pub const JSON: &str = "application/json";

/// What a server shows at its port.
#[derive(Default)]
pub struct Routes {
    shown: Shown,
    more: Router,
    /// Path, type, and what gives the text.
    texts: Vec<(String, &'static str, Text)>,
    cluster: Option<Cluster>,
    listed: Vec<(String, &'static str)>,
    entries: Vec<Entry>,
    rights: Option<ServiceRights>,
}

impl Routes {
    /// Who asks there may do what these say, if there are any: look, or change as well.
    #[must_use]
    pub(crate) fn guarded(self, rights: Option<ServiceRights>) -> Routes {
        Routes { rights, ..self }
    }

    /// A service that the page at `/` names.
    #[must_use]
    pub fn entry(mut self, entry: Entry) -> Routes {
        self.entries.push(entry);
        self
    }

    /// Registers of this list, too.
    #[must_use]
    pub fn registers<T: Tuned>(mut self, tuned: Arc<T>) -> Routes {
        self.shown.lists.0.push((None, tuned));
        self
    }

    /// Metrics that are added to the page when somebody asks; it may wait for a lock or a loop.
    #[must_use]
    pub fn metrics(mut self, collect: impl Fn(&mut Page) + Send + Sync + 'static) -> Routes {
        self.shown.collect.push((None, Box::new(collect)));
        self
    }

    /// Clients are served if this says so, too; else it says why not. It may wait as well.
    #[must_use]
    pub fn ready(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Routes {
        self.shown.checks.ready.push((None, Arc::new(check)));
        self
    }

    /// The server may serve again without being started anew if this says so, too; else it says why not. It may not wait.
    #[must_use]
    pub fn alive(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Routes {
        self.shown.checks.alive.push((None, Arc::new(check)));
        self
    }

    /// Loops whose turns show that the server lives.
    #[must_use]
    pub fn loops(mut self, pulses: impl IntoIterator<Item = Pulse>) -> Routes {
        self.shown.checks.pulses.extend(pulses);
        self
    }

    /// The loops that `/healthz` looks at.
    pub fn pulses(&self) -> Vec<Pulse> {
        self.shown.checks.pulses.clone()
    }

    /// What `/healthz` and `/readyz` go by as far as it is here now, for the service of this name.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn readiness(&self, owner: Option<&str>) -> io::Result<Readiness> {
        Readiness::of(self.shown.checks.clone(), owner)
    }

    /// Another request, `GET /path` or `PUT /path`, with what it answers.
    #[must_use]
    pub fn with(mut self, request: &'static str, what: &'static str, route: MethodRouter) -> Routes {
        let path = request.split_once(' ').map_or(request, |(_, path)| path);
        self.more = self.more.route(path, route);
        self.listed.push((request.to_owned(), what));
        self
    }

    /// Another `GET /path`, answered with a text that may have to wait for a lock or a loop.
    #[must_use]
    pub fn text(
        mut self,
        request: &'static str,
        what: &'static str,
        kind: &'static str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Routes {
        let path = request.split_once(' ').map_or(request, |(_, path)| path);
        self.texts.push((path.to_owned(), kind, Arc::new(text)));
        self.listed.push((request.to_owned(), what));
        self
    }

    /// Its requests leave spans there.
    #[must_use]
    pub fn traces(mut self, tracer: &Tracer) -> Routes {
        self.shown.tracer = Some(tracer.clone());
        self
    }

    /// It is a member of a cluster: how all of them are, which is asked of them while it waits.
    #[must_use]
    pub fn cluster(
        mut self,
        ask: impl Fn() -> Result<serde_json::Value, String> + Send + Sync + 'static,
    ) -> Routes {
        self.cluster = Some(Arc::new(ask));
        self
    }

    /// What a service shows besides, of several: its name is before its registers' and its loops' names, a label of its metrics, and its own
    /// requests are below /services/NAME. Without a name nothing is changed.
    #[must_use]
    pub fn service(mut self, name: Option<&str>, own: Routes) -> Routes {
        let Routes { shown, more, texts, cluster, listed, entries, rights: _ } = own;
        self.cluster = self.cluster.or(cluster);
        let Shown { lists, collect, checks, tracer } = shown;
        self.entries.extend(entries);
        let owner: Owner = name.map(Arc::from);
        let below = name.map_or(String::new(), |name| format!("/services/{name}"));
        let named =
            |what: String| owner.as_ref().map_or_else(|| what.clone(), |owner| format!("{owner}: {what}"));
        self.shown.lists.0.extend(lists.0.into_iter().map(|(_, list)| (owner.clone(), list)));
        self.shown.collect.extend(collect.into_iter().map(|(_, collect)| (owner.clone(), collect)));
        self.shown.checks.pulses.extend(checks.pulses.into_iter().map(|pulse| pulse.renamed(named)));
        let named_check = |(_, check): (Owner, Check)| {
            let (of, owner) = (owner.clone(), owner.clone());
            let named = move |why: String| match &of {
                Some(owner) => format!("{owner}: {why}"),
                None => why,
            };
            (owner, Arc::new(move || check().map_err(&named)) as Check)
        };
        self.shown.checks.ready.extend(checks.ready.into_iter().map(named_check));
        self.shown.checks.alive.extend(checks.alive.into_iter().map(named_check));
        if let Some(tracer) = tracer {
            if name.is_some() {
                self = self.with_traces(&below, &tracer, true);
            }
            // One tracer has the spans of all services.
            self.shown.tracer = Some(tracer);
        }
        self.more = if below.is_empty() { self.more.merge(more) } else { self.more.nest(&below, more) };
        self.texts.extend(texts.into_iter().map(|(path, kind, text)| (format!("{below}{path}"), kind, text)));
        self.listed.extend(
            listed
                .into_iter()
                .map(|(request, what)| (request.replacen(" /", &format!(" {below}/"), 1), what)),
        );
        self
    }

    fn with_traces(mut self, below: &str, tracer: &Tracer, is_one: bool) -> Routes {
        for ((path, what), route) in
            [traces::CHROME, traces::OTLP].into_iter().zip(traces::routes(tracer, is_one))
        {
            self.more = self.more.route(&format!("{below}{path}"), route);
            self.listed.push((format!("GET {below}{path}"), what));
        }
        self
    }

    /// What is shown, for whoever takes it without a port.
    pub(crate) fn into_shown(self) -> Arc<Shown> {
        Arc::new(self.shown)
    }

    /// The port's requests, and what they show.
    fn into_router(mut self) -> io::Result<(Router, Arc<Shown>)> {
        if let Some(tracer) = self.shown.tracer.clone() {
            self = self.with_traces("", &tracer, false);
        }
        let common = COMMON.map(|(request, what)| (request.to_owned(), what));
        let requests = common.into_iter().chain(std::mem::take(&mut self.listed)).collect();
        let index = Arc::new(Index { services: std::mem::take(&mut self.entries), requests });
        let Routes { shown, mut more, texts, cluster, .. } = self;
        let shown = Arc::new(shown);
        let (sample, live) = live::routes(&shown, cluster);
        let collector = Collector::start(Some((history::INTERVAL, Box::new(sample))))?;
        let state = Asked { shown: Arc::clone(&shown), begun: Instant::now(), collector };
        for (path, kind, text) in texts {
            let asked = state.clone();
            let answer = async move || {
                let text = asked.of(move |_| text()).await?;
                Ok::<_, Response>(([(header::CONTENT_TYPE, kind)], text))
            };
            more = more.route(&path, get(answer));
        }
        let routes = Router::new()
            .route("/", get(async move |asked, headers| show_index(asked, headers, &index).await))
            .route("/metrics", get(show_metrics))
            .route("/registers", get(show_registers))
            .route("/registers/{name}", get(show_register).put(set_register))
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .layer(DefaultBodyLimit::max(4096));
        Ok((routes.with_state(state).merge(live).merge(more), shown))
    }
}

/// The port, serving since it was made and until it is dropped.
pub struct Admin {
    port: Port,
    shown: Arc<Shown>,
    token: PathBuf,
    /// The file is this port's, and goes with it.
    made: bool,
}

impl Admin {
    /// Binds the address and serves these routes from a new thread.
    ///
    /// # Errors
    /// The system's, for example when the address is taken; the token cannot be read or written.
    pub fn start(at: PortAt, routes: Routes) -> io::Result<Admin> {
        let guard = Arc::new(OnceLock::new());
        let rights = routes.rights.clone();
        let (routes, shown) = routes.into_router()?;
        let routes = routes.layer(from_fn_with_state(Arc::clone(&guard), guarded));
        let port = Port::start("admin", at, routes, LIMITS)?;
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
        guard.set(Guard::new(key).with_rights(rights)).expect("it is set once");
        Ok(Admin { port, shown, token, made })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// How it is asked: `http://ADDR:PORT` or `https://ADDR:PORT`.
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// What is shown there.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown)
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

async fn show_index(
    State(asked): State<Asked>,
    headers: HeaderMap,
    index: &Index,
) -> Result<Response, Response> {
    if !wants_html(&headers) {
        return Ok(index.text().into_response());
    }
    let ready = asked.of(Shown::ready).await?;
    Ok(index.html(&Moment { uptime: asked.begun.elapsed(), ready }))
}

async fn show_metrics(State(asked): State<Asked>, headers: HeaderMap) -> Result<Response, Response> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let text = asked.of(move |shown| shown.page().written(format)).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

async fn show_registers(State(asked): State<Asked>) -> Json<Vec<Row>> {
    Json(asked.shown.lists.show())
}

async fn show_register(State(asked): State<Asked>, Path(name): Path<String>) -> Result<Json<Row>, Refused> {
    asked.shown.lists.show_one(&name).map(Json)
}

async fn set_register(
    State(asked): State<Asked>,
    Path(name): Path<String>,
    text: String,
) -> Result<Response, Response> {
    let set = asked.of(move |shown| shown.lists.set_live(&name, &text)).await?;
    Ok(set.map(Json).into_response())
}

async fn healthz(State(asked): State<Asked>) -> Response {
    let stalled = stalled(&asked.shown.checks.pulses, STALL_TIMEOUT).await;
    if stalled.is_empty() {
        return match asked.shown.checks.alive() {
            Ok(()) => "ok\n".into_response(),
            Err(why) => {
                let body = serde_json::json!({ "status": "ended", "why": why });
                (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
            }
        };
    }
    let body = serde_json::json!({ "status": "stalled", "threads": stalled });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

async fn readyz(State(asked): State<Asked>) -> Result<Response, Response> {
    Ok(match asked.of(Shown::ready).await? {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    })
}
