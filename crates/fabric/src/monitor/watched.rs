//! One thread's recorder beside what a channel or a server must know to use it: methods by the numbers that frames carry, and how many
//! calls the registers want sampled.

use super::{MethodId, Monitor, Recorder, Sampling, Side};
use crate::connection::handshake::ServiceInfo;
use crate::registers::Watch;
use crate::server::Shown;
use std::sync::Arc;

/// What a channel or a server tells a monitor with.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) recorder: Recorder,
    monitor: Monitor,
    /// By the numbers of frames.
    methods: Vec<MethodId>,
    watch: Watch,
}

impl Watched {
    pub(crate) fn new(monitor: &Monitor, side: Side) -> Watched {
        let mut watch = Watch::default();
        watch.changed(monitor.registers());
        let recorder = monitor.recorder(side, Sampling::of(monitor.registers()));
        Watched { recorder, monitor: monitor.clone(), methods: Vec::new(), watch }
    }

    /// The server has an accelerator.
    pub(crate) fn show_accelerator(&self, shown: &Arc<Shown>) {
        self.monitor.show_accelerator(shown);
    }

    /// Learns what a server serves, unless it knows.
    pub(crate) fn learn(&mut self, services: &[ServiceInfo]) {
        let count = services.iter().map(|service| service.methods.len()).sum();
        if self.methods.len() == count {
            return;
        }
        self.methods = vec![MethodId::OTHER; count];
        for service in services {
            for method in &service.methods {
                // A peer's numbers need not be dense.
                if let Some(known) = self.methods.get_mut(usize::from(method.number)) {
                    *known = self.monitor.method(&format!("/{}/{}", service.name, method.name));
                }
            }
        }
    }

    /// A method of that number.
    #[inline]
    pub(crate) fn method(&self, number: u16) -> MethodId {
        self.methods.get(usize::from(number)).copied().unwrap_or(MethodId::OTHER)
    }

    /// Samples as the registers say now.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.watch.changed(self.monitor.registers()) {
            self.recorder.set_sampling(Sampling::of(self.monitor.registers()));
        }
    }
}
