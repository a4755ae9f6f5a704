//! gRPC's health checking protocol, of the same checks as `/healthz` and `/readyz` ([`Readiness`]).
//!
//! One task looks, for all who ask: each is answered by a look that began after it asked, and calls of `Watch` hear of changes once in
//! [`WATCH_INTERVAL`]. While nobody asks, nothing is looked at.
//!
//! Bounds: one look at a time, however many ask. A look takes as long as a thread that stalls is waited for, two seconds, and as long as the server
//! may take to be connected.

use super::bridge::Bridge;
use super::built_in::proto::grpc::health::v1 as proto;
use super::built_in::reply;
use super::stream::{Answer, Gone, Outcome, Requests};
use crate::admin::health::Readiness;
use fabric::status::{Code, Status};
use proto::health_check_response::ServingStatus;
use proto::{HealthCheckRequest, HealthCheckResponse};
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// From one look to the next while somebody watches.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// What a look found.
#[derive(Clone, Copy, Debug, Default)]
struct Finding {
    /// Counts from 1.
    number: u64,
    /// The whole process serves.
    process: bool,
    /// The service that the gateway belongs to serves.
    service: bool,
}

/// The last look, and who waits for the next.
pub struct Health {
    readiness: Readiness,
    /// The number of the last look that has begun.
    begun: Cell<u64>,
    wanted: Notify,
    looks: watch::Sender<Finding>,
    /// The gateway ends.
    ended: watch::Receiver<bool>,
}

impl Health {
    /// By these checks, until the gateway `ended`.
    pub fn new(readiness: Readiness, ended: watch::Receiver<bool>) -> Health {
        let looks = watch::Sender::new(Finding::default());
        Health { readiness, begun: Cell::new(0), wanted: Notify::new(), looks, ended }
    }

    /// Looks whenever somebody wants to know, for ever.
    pub async fn run(&self, bridge: &Rc<Bridge>) -> Infallible {
        let mut watched = false;
        loop {
            tokio::select! {
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(WATCH_INTERVAL), if watched => {}
            }
            let number = self.begun.get() + 1;
            self.begun.set(number);
            // Whoever is told that the server is not ready sends no calls, and calls are what connects it.
            let is_connected = bridge.connect().await.is_ok();
            let (process, service) = match is_connected {
                // This thread turns, or nobody would be told anything.
                true => self.readiness.look(|| bridge.standing.beat.turn()).await,
                false => (false, false),
            };
            self.looks.send_replace(Finding { number, process, service });
            watched = self.looks.receiver_count() > 0;
        }
    }

    /// How a service stands, by a look that begins now.
    async fn status(
        &self,
        bridge: &Bridge,
        service: &str,
        looks: &mut watch::Receiver<Finding>,
    ) -> ServingStatus {
        let after = self.begun.get();
        self.wanted.notify_one();
        // Whoever looks lives as long as the calls do.
        let look = looks.wait_for(|look| look.number > after).await.map(|look| *look).unwrap_or_default();
        verdict(bridge, service, look)
    }

    /// Answers `Check`.
    pub async fn check(&self, bridge: &Rc<Bridge>, requests: &mut Requests, answer: &mut Answer) -> Outcome {
        let service = match requests.only().await.and_then(|request| service_of(&request)) {
            Ok(service) => service,
            Err(status) => return Ok((Err(status), Vec::new())),
        };
        match self.status(bridge, &service, &mut self.looks.subscribe()).await {
            ServingStatus::SERVICE_UNKNOWN => {
                let text = format!("there is no service {service:?} here");
                Ok((Err(Status::new(Code::NotFound, text)), Vec::new()))
            }
            status => {
                answer.message(&encoded(status)).await?;
                Ok((Ok(()), Vec::new()))
            }
        }
    }

    /// Answers `Watch`.
    pub async fn watch(&self, bridge: &Rc<Bridge>, requests: &mut Requests, answer: &mut Answer) -> Outcome {
        let service = match requests.only().await.and_then(|request| service_of(&request)) {
            Ok(service) => service,
            Err(status) => return Ok((Err(status), Vec::new())),
        };
        let (mut looks, mut ended) = (self.looks.subscribe(), self.ended.clone());
        let mut status = self.status(bridge, &service, &mut looks).await;
        loop {
            answer.message(&encoded(status)).await?;
            let said = status;
            while status == said {
                tokio::select! {
                    changed = looks.changed() => match changed {
                        Ok(()) => status = verdict(bridge, &service, *looks.borrow_and_update()),
                        Err(_) => return Err(Gone),
                    },
                    _ = ended.wait_for(|ended| *ended) => {
                        answer.message(&encoded(ServingStatus::NOT_SERVING)).await?;
                        return Ok((Err(Status::new(Code::Unavailable, "the server is shutting down")), Vec::new()));
                    }
                    () = answer.reset() => return Err(Gone),
                }
            }
        }
    }
}

/// What a look says of a service.
fn verdict(bridge: &Bridge, service: &str, look: Finding) -> ServingStatus {
    let serves = match service {
        "" => look.process,
        name if bridge.catalog().has_service(name) => look.service,
        _ => return ServingStatus::SERVICE_UNKNOWN,
    };
    if serves { ServingStatus::SERVING } else { ServingStatus::NOT_SERVING }
}

fn service_of(request: &[u8]) -> Result<String, Status> {
    let mut service = String::new();
    // The codec's form of a request that is only read: its reply is thrown away.
    reply::<HealthCheckRequest, HealthCheckResponse>(request, |request, _| {
        request.service().clone_into(&mut service);
        Ok(())
    })?;
    Ok(service)
}

fn encoded(status: ServingStatus) -> Vec<u8> {
    let encoded = reply::<HealthCheckRequest, HealthCheckResponse>(&[], |_, reply| {
        reply.set_status(status);
        Ok(())
    });
    encoded.expect("two bytes find room")
}
