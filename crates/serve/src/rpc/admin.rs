//! What the [admin ports](crate::admin) of `millrace rpc serve` and `rpc gateway` show: what the fabric's monitor saw, and its registers.
//!
//! | request | answer |
//! |---|---|
//! | `GET /stats.json` | the monitor's figures, as JSON |
//! | `GET /connections` | those that are open, and what went over them, as JSON |
//!
//! Calls are sampled as `monitor.sample` and `trace.sample` say, which this port sets; their spans are among those of the whole process.

use super::metrics;
use crate::admin::{JSON, Routes, Tuned};
use fabric::monitor::Monitor;
use fabric::registers::{Id, Register, Registers};
use fabric::server::Router;
use fabric::service::Place;
use std::sync::Arc;

/// What the port shows, and what is served, where that is known.
struct Seen(Monitor, Option<Arc<Router>>);

impl Tuned for Seen {
    type Id = Id;

    fn registers(&self) -> &Registers {
        self.0.registers()
    }

    /// A share that goes where nothing that is served may run.
    fn refuses(&self, name: &str, text: &str) -> Option<String> {
        let router = self.1.as_ref()?;
        // As it would be; what is no value is refused by who sets it.
        let after = |id: Id| match Id::SPECS[id as usize].name == name {
            true => Id::SPECS[id as usize].parse(text).ok(),
            false => Some(self.registers().read(id)),
        };
        let is_asked = name == Id::SPECS[Id::PlaceOther as usize].name
            || name == Id::SPECS[Id::PlaceShare as usize].name;
        let (other, share) = is_asked.then(|| Some((after(Id::PlaceOther)?, after(Id::PlaceShare)?)))??;
        let why = router.refuses(Place::ALL[other as usize]).filter(|_| share > 0)?;
        Some(format!("{why}; set place.share to 0, or place.other to a place that they may run at"))
    }
}

/// What the port of `monitor` shows; registers are refused that nothing which `router` has can follow.
pub fn routes(monitor: &Monitor, router: Option<Arc<Router>>) -> Routes {
    let [collected, stats, connections] = [(); 3].map(|()| monitor.clone());
    Routes::default()
        .registers(Arc::new(Seen(monitor.clone(), router)))
        .metrics(move |page| {
            metrics::collect(&collected.snapshot(), page);
            metrics::collect_accelerators(&collected.accelerators(), page);
        })
        .text("GET /stats.json", "the monitor's figures, as JSON", JSON, move || stats.snapshot().to_json())
        .text("GET /connections", "open connections, and what went over them, as JSON", JSON, move || {
            connections.snapshot().connections_json()
        })
        .traces(&monitor.tracer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::server::{Options, Server};
    use fabric::service::{Incoming, MethodDescriptor, MethodOptions, Places, Service, ServiceDescriptor};
    use fabric::status::Status;

    static ON_HOST: ServiceDescriptor = ServiceDescriptor {
        name: "test.Host",
        methods: &[MethodDescriptor {
            options: MethodOptions { places: Places::of(&[Place::Host]), ..MethodOptions::NONE },
            ..MethodDescriptor::new("Only", false, false)
        }],
        hash: 1,
        descriptors: b"",
    };

    struct OnHost;

    impl Service for OnHost {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            &ON_HOST
        }

        fn unary(&self, _: usize, _: &mut Incoming<'_>) -> Result<(), Status> {
            Ok(())
        }
    }

    #[test]
    fn a_share_is_refused_where_nothing_may_run() {
        let server = Server::try_new(Options::default()).expect("descriptors").service(OnHost);
        let seen = Seen(Monitor::default(), Some(server.router()));
        assert_eq!((seen.refuses("place.share", "0"), seen.refuses("place.other", "engine")), (None, None));
        let why = seen.refuses("place.share", "30").expect("the other place is the edge");
        assert!(
            why.contains("/test.Host/Only runs on host") && why.contains("set place.share to 0"),
            "{why}"
        );
        seen.registers().set_live("place.other", "host").expect("a place");
        assert_eq!(seen.refuses("place.share", "30"), None);
        seen.registers().set_live("place.share", "30").expect("a share");
        assert!(
            seen.refuses("place.other", "engine").is_some() && seen.refuses("workers.count", "2").is_none()
        );
        assert_eq!(seen.refuses("place.share", "many"), None, "who sets it says what is wrong");
        assert_eq!(Seen(Monitor::default(), None).refuses("place.share", "30"), None);
    }
}
