//! The live page: what `/metrics`, `/registers`, `/healthz`, `/trace` and `/history` of this port say, drawn in a browser every half second.
//!
//! The server does nothing for it besides answering these requests, and nothing while nobody looks. No part of the page comes from elsewhere: it works in a
//! machine room without a network, and its policy (`Content-Security-Policy`) lets it ask nobody but this port.

use super::history::History;
use super::shown::Shown;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::get;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// How the members of a cluster are, as JSON; or why that cannot be said.
pub(super) type Cluster = Arc<dyn Fn() -> Result<serde_json::Value, String> + Send + Sync>;

/// The page with its files, `/history` and `/cluster`; and what takes the samples of that history, with the time since the one before.
pub(super) fn routes(
    shown: &Arc<Shown>,
    cluster: Option<Cluster>,
) -> (impl Fn(Duration) + Send + use<>, Router) {
    let history = Arc::<Mutex<History>>::default();
    let (shown, kept) = (Arc::clone(shown), Arc::clone(&history));
    let sample = move |elapsed: Duration| {
        let page = shown.page();
        kept.lock().unwrap_or_else(PoisonError::into_inner).sample(&page, elapsed.as_secs_f64());
    };
    let told = async move || Json(history.lock().unwrap_or_else(PoisonError::into_inner).json());
    let cluster = cluster.map(|ask| Arc::new(Members { ask, told: Mutex::default() }));
    let mut router = Router::new()
        .route("/history", get(told))
        .route("/cluster", get(async move || show_cluster(cluster).await));
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
    (sample, router)
}

/// Members are asked for all who want to know within this time: nobody can have this port ask all others at the rate at which it is asked.
const CLUSTER_AGE_MAX: Duration = Duration::from_millis(400);

/// What members said last, and when they had said it.
struct Members {
    ask: Cluster,
    told: Mutex<Option<(Instant, Result<serde_json::Value, String>)>>,
}

impl Members {
    /// Whoever comes while others ask waits for what these are told.
    fn told(&self) -> Result<serde_json::Value, String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &*told {
            Some((at, answer)) if at.elapsed() < CLUSTER_AGE_MAX => answer.clone(),
            _ => {
                let answer = (self.ask)();
                *told = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

/// Members are asked on a thread that nothing else needs: this process is one of them.
async fn show_cluster(cluster: Option<Arc<Members>>) -> Response {
    let Some(cluster) = cluster else {
        return (StatusCode::NOT_FOUND, "it was started without the file of a cluster\n").into_response();
    };
    match tokio::task::spawn_blocking(move || cluster.told()).await {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
        // Printed when it happened.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn members_are_asked_once_for_many() {
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        let ask: Cluster = Arc::new(move || Ok(counted.fetch_add(1, Ordering::Relaxed).into()));
        let members = Members { ask, told: Mutex::default() };
        // What is fresh does not age here.
        let fresh = Instant::now() + Duration::from_secs(3600);
        assert_eq!(members.told(), Ok(0.into()));
        members.told.lock().expect("nobody panicked").as_mut().expect("it was told").0 = fresh;
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| assert_eq!(members.told(), Ok(0.into())))));
        });
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let old = Instant::now().checked_sub(2 * CLUSTER_AGE_MAX).expect("the machine runs for longer");
        members.told.lock().expect("nobody panicked").as_mut().expect("it was told").0 = old;
        assert_eq!(members.told(), Ok(1.into()));
    }
}
