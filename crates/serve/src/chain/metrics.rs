//! A replica's figures as Prometheus text, at a port of its own (`--admin`). The port asks the replica's loop, which answers between two
//! turns, so that nothing is counted twice or behind a lock.

use super::error::ChainError;
use super::node::Node;
use crate::admin::Admin;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// The loop's end: who asks gets the text.
#[derive(Debug)]
pub struct Questions(mpsc::Receiver<oneshot::Sender<String>>);

type Ask = Arc<mpsc::Sender<oneshot::Sender<String>>>;

impl Node {
    /// Serves its figures at `http://ADDRESS/metrics` until what is returned is dropped.
    ///
    /// # Errors
    /// The system's: somebody else listens there, for one.
    pub fn serve_metrics(&mut self, address: SocketAddr) -> Result<Admin, ChainError> {
        let (ask, asked) = mpsc::channel();
        self.questions = Some(Questions(asked));
        let routes = Router::new().route("/metrics", get(metrics)).with_state(Arc::new(ask));
        Admin::start(address, routes).map_err(|error| ChainError::Admin(address, error))
    }

    /// Answers whoever asked meanwhile.
    pub(super) fn answer_questions(&self) {
        let Some(Questions(asked)) = &self.questions else { return };
        while let Ok(asker) = asked.try_recv() {
            // Who went away does not want it any more.
            let _ = asker.send(text(self.place.chain, self.place.id.0, &self.state_figures()));
        }
    }

    /// Figures, and where the replica is in the chain.
    fn state_figures(&self) -> Vec<(&'static str, f64)> {
        let info = self.info(None);
        let mut all = vec![
            ("epoch", info.epoch.0 as f64),
            ("is_head", f64::from(u8::from(info.is_head))),
            ("is_tail", f64::from(u8::from(info.is_tail))),
            ("serves_reads", f64::from(u8::from(info.serves_reads))),
            ("last_lsn", info.last.0 as f64),
            ("durable_lsn", info.durable.0 as f64),
            ("committed_lsn", info.committed.0 as f64),
            ("applied_lsn", info.applied.0 as f64),
            ("transactions_waiting", info.waiting as f64),
            ("transactions_under_way", info.under_way as f64),
        ];
        all.extend(self.figures());
        all
    }
}

async fn metrics(State(ask): State<Ask>) -> Response {
    let (answer, answered) = oneshot::channel();
    // A replica that has ended says nothing.
    let text = if ask.send(answer).is_ok() { answered.await.ok() } else { None };
    match text {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the replica has ended\n").into_response(),
    }
}

/// Prometheus text format 0.0.4.
fn text(chain: u32, replica: u16, figures: &[(&'static str, f64)]) -> String {
    let mut out = String::with_capacity(8 << 10);
    for (name, value) in figures {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(
            out,
            "# TYPE millrace_chain_{name} {kind}\nmillrace_chain_{name}{{chain=\"{chain}\",replica=\"{replica}\"}} {value}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_grows_is_a_counter() {
        let text = text(7, 2, &[("applied_lsn", 12.0), ("log_syncs_total", 3.0)]);
        assert_eq!(
            text,
            "# TYPE millrace_chain_applied_lsn gauge\nmillrace_chain_applied_lsn{chain=\"7\",replica=\"2\"} 12\n\
             # TYPE millrace_chain_log_syncs_total counter\nmillrace_chain_log_syncs_total{chain=\"7\",replica=\"2\"} 3\n"
        );
    }
}
