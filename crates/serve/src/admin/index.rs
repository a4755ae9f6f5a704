//! `GET /`: who this is, and what the port answers. A page of HTML for browsers (no script, nothing from elsewhere, light or dark as the reader has it), the
//! list of requests as text for everybody else.

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use base::html::escape;
use std::fmt::Write as _;
use std::time::Duration;

const STYLE: &str = include_str!("index.css");

/// A service of the process, as the page lists it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where a process has several.
    pub name: Option<String>,
    /// The word for what it is.
    pub kind: &'static str,
    /// What it is there for.
    pub role: String,
    /// Where clients find it.
    pub addresses: Vec<String>,
}

/// What the page says that does not change.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub services: Vec<Entry>,
    /// Request, and what it answers.
    pub requests: Vec<(String, &'static str)>,
}

/// What it says of the moment.
pub(super) struct Moment {
    /// Since the process began.
    pub uptime: Duration,
    /// Or why clients are not served.
    pub ready: Result<(), String>,
}

/// Whether a browser asks.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

impl Index {
    /// The list of requests.
    pub fn text(&self) -> String {
        let mut list = String::new();
        for (request, what) in &self.requests {
            let _ = writeln!(list, "{request:24} {what}");
        }
        list
    }

    /// The page.
    pub fn html(&self, moment: &Moment) -> Response {
        // Nothing is fetched, run or framed, whatever the texts on the page are.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
        ([(header::CONTENT_SECURITY_POLICY, policy)], Html(self.page(moment))).into_response()
    }

    fn page(&self, Moment { uptime, ready }: &Moment) -> String {
        let kinds: Vec<&str> = self.services.iter().map(|one| one.kind).collect();
        let title = escape(&format!("millrace {}", kinds.join(", ")));
        let host = rustix::system::uname();
        let rows: String = [
            ("version", escape(env!("CARGO_PKG_VERSION"))),
            ("host", escape(&host.nodename().to_string_lossy())),
            ("process", std::process::id().to_string()),
            ("up for", span(*uptime)),
            (
                "clients",
                match ready {
                    Ok(()) => "<span class=\"good\">are served</span>".to_owned(),
                    Err(why) => format!("<span class=\"bad\">are not served: {}</span>", escape(why)),
                },
            ),
        ]
        .iter()
        .map(|(name, value)| format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>"))
        .collect();
        let services: String = self.services.iter().map(Entry::row).collect();
        let requests: String = self.requests.iter().map(|(request, what)| row_of(request, what)).collect();
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1><table>{rows}</table>\
             <h2>Services</h2><table><tr><th>name</th><th>kind</th><th>role</th><th>clients find it at</th></tr>{services}</table>\
             <h2>This port answers</h2><table>{requests}</table></main></body></html>\n"
        )
    }
}

impl Entry {
    fn row(&self) -> String {
        let name = self.name.as_deref().unwrap_or("—");
        let addresses: Vec<String> = self.addresses.iter().map(|address| escape(address)).collect();
        let (name, kind, role) = (escape(name), escape(self.kind), escape(&self.role));
        format!("<tr><td>{name}</td><td>{kind}</td><td>{role}</td><td>{}</td></tr>", addresses.join("<br>"))
    }
}

/// A request; one that a browser can make by itself is a link.
fn row_of(request: &str, what: &str) -> String {
    let link = request.strip_prefix("GET ").filter(|path| !path.contains("NAME"));
    let shown = match link {
        Some(path) => format!("GET <a href=\"{0}\">{0}</a>", escape(path)),
        None => escape(request),
    };
    format!("<tr><td>{shown}</td><td>{}</td></tr>", escape(what))
}

/// The two largest units of a time.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (1.., ..) => format!("{days} d {hours} h"),
        (_, 1.., _) => format!("{hours} h {minutes} min"),
        (_, _, 1..) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units() {
        for (seconds, text) in
            [(0, "0 s"), (61, "1 min 1 s"), (3_599, "59 min 59 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_page_says_who_serves_what_and_links_what_can_be_read() {
        let served = Entry {
            name: Some("a<b".into()),
            kind: "kv",
            role: "memcached node".into(),
            addresses: vec!["tcp:127.0.0.1:1".into(), "unix:/x&y".into()],
        };
        let index = Index {
            services: vec![served],
            requests: vec![
                ("GET /metrics".into(), "metrics"),
                ("PUT /stop".into(), "ends it"),
                ("GET /registers/NAME".into(), "one"),
            ],
        };
        let page = index.page(&Moment { uptime: Duration::from_secs(5), ready: Err("it <starts>".into()) });
        for part in [
            "<title>millrace kv</title>",
            "<td>a&lt;b</td><td>kv</td><td>memcached node</td><td>tcp:127.0.0.1:1<br>unix:/x&amp;y</td>",
            "GET <a href=\"/metrics\">/metrics</a>",
            "<td>PUT /stop</td>",
            "<td>GET /registers/NAME</td>",
            "are not served: it &lt;starts&gt;",
            "<td>5 s</td>",
        ] {
            assert!(page.contains(part), "{part} in\n{page}");
        }
        assert!(
            !page.contains("http://") && !page.contains("https://") && !page.contains("<script"),
            "{page}"
        );
        assert_eq!(index.text().lines().count(), 3);
    }
}
