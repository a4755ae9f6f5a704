//! The metrics of a recommendation server: its [`Counters`], and the model that it serves.

use super::counters::Counters;
use super::inference::Inference;
use super::shelf::Shelf;
use crate::engine_cores::OnCore;
use crate::metrics::Page;
use rec::model::Sparse;
use std::sync::atomic::{AtomicU64, Ordering};

crate::families! { "millrace_rec_";
    REQUESTS counter "requests" count ["outcome"] "Requests: answered with scores, refused (answered with an error, or not taken), given_up (the caller left before), expired (it waited longer than rec.deadline), panicked (a fault of the server).";
    TAKEN counter "requests_taken" count [] "Requests that were read.";
    QUERIES counter "queries" count [] "Queries of the requests that were answered.";
    ROWS counter "rows" count [] "Rows of tables that these read, memo rows among them.";
    MESSAGE_BYTES counter "message" bytes ["direction"] "Bytes: received (requests that were taken, as they came), sent (the scores of those that were answered).";
    BATCHES counter "batches" count [] "Batches that the engine computed.";
    LOADS counter "model_loads" count ["outcome"] "Loads of models after the first: done, failed.";
    GENERATION gauge "model_generation" count ["model", "version"] "Which load of the server's is served, from 1.";
    MODEL_ROW gauge "model_row" bytes ["model", "version"] "Bytes of a row of a model's tables.";
    MODEL_REQUESTS counter "model_requests" count ["model", "version", "outcome"] "Requests for a model: answered with scores, failed (refused, given up by their callers, or panicked).";
    MODEL_QUERIES counter "model_queries" count ["model", "version"] "Queries of a model that were answered.";
    MODEL_BATCHES counter "model_batches" count ["model", "version"] "Batches of a model that the engine computed.";
    MODEL_TIME counter "model_time" seconds ["model", "version", "part"] "Time of requests that a model answered with scores: all of it, what of it was waiting; and of the engine on its batches: compute, reply.";
    PASSES counter "engine_passes" count [] "Passes of the engine in which it did something for this service.";
    BUSY counter "busy" seconds ["thread"] "Processor time of preprocess (reading and checking requests, wherever that is done) and engine (batches and answers).";
    STAGE counter "stage" seconds ["stage"] "Time of the engine: reduce (rows of tables), mlp (the rest of the model), reply.";
    TIME counter "request_time" seconds ["part"] "Time of requests that were answered with scores, from the socket to the answer: all of it, and what of it was waiting.";
}

/// Adds them; the model's and the engine's once there are these.
pub fn collect(counters: &Counters, running: Option<(&Shelf, &OnCore<Inference>)>, page: &mut Page) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (family, counter) in [
        (TAKEN, &counters.taken),
        (QUERIES, &counters.queries),
        (ROWS, &counters.rows),
        (BATCHES, &counters.batches),
    ] {
        page.add(family, &[], read(counter));
    }
    for (direction, counter) in [("received", &counters.received), ("sent", &counters.sent)] {
        page.add(MESSAGE_BYTES, &[direction], read(counter));
    }
    for (family, label, counter) in [
        (REQUESTS, "answered", &counters.requests),
        (REQUESTS, "refused", &counters.refused),
        (REQUESTS, "given_up", &counters.given_up),
        (REQUESTS, "expired", &counters.expired),
        (REQUESTS, "panicked", &counters.panicked),
        (LOADS, "done", &counters.loads),
        (LOADS, "failed", &counters.failed_loads),
    ] {
        page.add(family, &[label], read(counter));
    }
    for (family, label, counter) in [
        (BUSY, "preprocess", &counters.preprocess_busy),
        (BUSY, "engine", &counters.engine_busy),
        (STAGE, "reduce", &counters.reduce),
        (STAGE, "mlp", &counters.mlp),
        (STAGE, "reply", &counters.reply),
        (TIME, "all", &counters.total),
        (TIME, "waiting", &counters.queued),
    ] {
        page.add(family, &[label], read(counter) as f64 / 1e9);
    }
    if let Some((shelf, on_core)) = running {
        page.add(PASSES, &[], on_core.ask(|_, counters| counters.passes));
        for model in shelf.all().iter() {
            let (name, version, counted) = (&model.name[..], &model.version[..], &model.counted);
            page.add(GENERATION, &[name, version], model.generation);
            let row = |table: &Sparse| table.format().row_bytes(table.dim());
            page.add(MODEL_ROW, &[name, version], model.model().tables().iter().map(row).max().unwrap_or(0));
            page.add(MODEL_QUERIES, &[name, version], read(&counted.queries));
            page.add(MODEL_BATCHES, &[name, version], read(&counted.batches));
            for (outcome, counter) in [("answered", &counted.requests), ("failed", &counted.failed)] {
                page.add(MODEL_REQUESTS, &[name, version, outcome], read(counter));
            }
            for (part, counter) in [
                ("all", &counted.total),
                ("waiting", &counted.queued),
                ("compute", &counted.compute),
                ("reply", &counted.reply),
            ] {
                page.add(MODEL_TIME, &[name, version, part], read(counter) as f64 / 1e9);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn all_that_is_counted_is_shown() {
        let counters = Counters::default();
        counters.mlp.store(1_500_000_000, Ordering::Relaxed);
        let mut page = Page::default();
        collect(&counters, None, &mut page);
        let text = page.text();
        lint::hold(&text);
        assert!(text.contains("millrace_rec_stage_seconds_total{stage=\"mlp\"} 1.5"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples, counters.all().len());
        let of_models =
            [GENERATION, MODEL_ROW, MODEL_REQUESTS, MODEL_QUERIES, MODEL_BATCHES, MODEL_TIME, PASSES];
        let of_models = of_models.map(|family| family.name);
        let missing = FAMILIES.iter().filter(|family| !text.contains(&format!("# TYPE {} ", family.name)));
        assert_eq!(missing.map(|family| family.name).collect::<Vec<_>>(), of_models);
    }
}
