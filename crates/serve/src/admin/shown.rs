//! What a process shows of itself: registers, metrics, health, spans. Asked by the port's requests, and by the exporter ([`crate::otlp`]).

use super::collector::Collector;
use super::health::Checks;
use super::registers::Lists;
use crate::metrics::{self, Page};
use crate::otlp;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base::trace::Tracer;
use std::sync::Arc;
use std::time::Instant;

pub(super) type Collect = Box<dyn Fn(&mut Page) + Send + Sync>;
/// Of which service something is, where a process has services with names.
pub(super) type Owner = Option<Arc<str>>;

/// All that is shown, of all services.
#[derive(Default)]
pub(crate) struct Shown {
    pub(super) lists: Lists,
    pub(super) collect: Vec<(Owner, Collect)>,
    pub(super) checks: Checks,
    pub(super) tracer: Option<Tracer>,
}

impl Shown {
    /// Whether clients are served, or why not.
    pub fn ready(&self) -> Result<(), String> {
        self.checks.ready()
    }

    /// Where spans are, if some service leaves them.
    pub fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// All samples of this moment. It may wait for a lock or a loop.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        for (owner, collect) in &self.collect {
            page.set_service(owner.as_deref());
            collect(&mut page);
        }
        for (owner, list) in &self.lists.0 {
            page.set_service(owner.as_deref());
            metrics::process::collect_registers(&mut page, &list.show());
        }
        page.set_service(None);
        let spans = self.tracer.as_ref().map(Tracer::counts).unwrap_or_default();
        metrics::process::collect(&mut page, spans);
        otlp::collect(&mut page);
        page
    }
}

/// What each request is given.
#[derive(Clone)]
pub(super) struct Asked {
    pub shown: Arc<Shown>,
    pub begun: Instant,
    pub collector: Collector,
}

impl Asked {
    /// What `job` says of the server.
    pub async fn of<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Shown) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let shown = Arc::clone(&self.shown);
        let silent = "the server does not answer; GET /healthz says which thread stalls\n";
        let told = self.collector.run(move || job(&shown)).await;
        told.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, silent).into_response())
    }
}
