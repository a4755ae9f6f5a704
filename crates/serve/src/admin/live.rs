//! The live page: what `/metrics`, `/registers`, `/healthz`, `/trace` and `/history` of this port say, drawn in a browser every half second.
//!
//! The server does nothing for it besides answering these requests, and nothing while nobody looks. No part of the page comes from elsewhere: it works in a
//! machine room without a network, and its policy (`Content-Security-Policy`) lets it ask nobody but this port.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;

/// Scripts and styles from this port only, none in the page itself; nobody may frame it, since it has buttons that change registers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type, and the file.
const FILES: [(&str, &str, &str); 8] = [
    ("/live", HTML, include_str!("live/page.html")),
    ("/live/page.css", CSS, include_str!("live/page.css")),
    ("/live/page.js", SCRIPT, include_str!("live/page.js")),
    ("/live/metrics.js", SCRIPT, include_str!("live/metrics.js")),
    ("/live/hops.js", SCRIPT, include_str!("live/hops.js")),
    ("/live/registers.js", SCRIPT, include_str!("live/registers.js")),
    ("/live/requests.js", SCRIPT, include_str!("live/requests.js")),
    ("/live/history.js", SCRIPT, include_str!("live/history.js")),
];

/// The page and its files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(mut router: Router<S>) -> Router<S> {
    for (path, kind, text) in FILES {
        let headers = [
            (CONTENT_TYPE, kind),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Another version of the server may be at this port soon.
            (CACHE_CONTROL, "no-cache"),
        ];
        router = router.route(path, get(async move || (headers, text)));
    }
    router
}
