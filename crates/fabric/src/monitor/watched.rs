//! One thread's recorder beside what a channel or a server must know to use it: methods by the numbers that frames carry, and how many
//! calls the registers want sampled.

use super::{MethodId, Monitor, Recorder, Sampling, Side};
use crate::connection::handshake::ServiceInfo;
use crate::registers::Watch;
use crate::server::Shown;
use base::recording::Recording;
use std::sync::Arc;

/// What a channel or a server tells a monitor with.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) recorder: Recorder,
    monitor: Monitor,
    /// By the numbers of frames.
    methods: Vec<MethodId>,
    watch: Watch,
    /// Where calls are recorded, of a server.
    recording: Option<Recording>,
    recorded: u32,
}

impl Watched {
    pub(crate) fn new(monitor: &Monitor, side: Side) -> Watched {
        let mut watch = Watch::default();
        watch.changed(monitor.registers());
        let recorder = monitor.recorder(side, Sampling::of(monitor.registers()));
        let monitor = monitor.clone();
        Watched { recorder, monitor, methods: Vec::new(), watch, recording: None, recorded: 0 }
    }

    /// Has calls recorded where the monitor says now.
    pub(crate) fn record(&mut self) {
        self.recording = Some(self.monitor.recording());
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
        let recorded = self.recording.as_ref().map_or(0, Recording::one_of);
        if recorded != self.recorded {
            self.recorded = recorded;
            self.recorder.set_recorded(recorded);
        }
    }
}
