//! Closed forms of queueing theory: what the planner estimates with, and what the simulation is held against.
//!
//! ρ is utilisation (0 ≤ ρ < 1); times are in the unit of the service time.
//!
//! Sources: Kleinrock, "Queueing Systems" I (1975): M/M/c §3.5, M/G/1 §5.6 (Pollaczek and Khinchin), Little's law §2.1; Reiser and
//! Lavenberg, "Mean-value analysis" (1980) for closed networks.

/// Mean wait before service in M/G/1: Poisson arrivals, one server, any service with this mean and squared coefficient of variation
/// (0: fixed, 1: exponential). Infinite from ρ = 1.
pub fn mg1_wait(rho: f64, service: f64, squared_variation: f64) -> f64 {
    if rho >= 1.0 { f64::INFINITY } else { rho * service * (1.0 + squared_variation) / (2.0 * (1.0 - rho)) }
}

/// Probability that an arrival must wait in M/M/c (Erlang's C formula). `rho` is of each server.
pub fn erlang_c(servers: u32, rho: f64) -> f64 {
    if rho >= 1.0 {
        return 1.0;
    }
    // Erlang's B by its recurrence, which neither overflows nor cancels; then C from B.
    let offered = rho * f64::from(servers);
    let mut blocked = 1.0;
    for n in 1..=servers {
        blocked = offered * blocked / (f64::from(n) + offered * blocked);
    }
    blocked / (1.0 - rho * (1.0 - blocked))
}

/// Mean wait before service in M/M/c.
pub fn mmc_wait(servers: u32, rho: f64, service: f64) -> f64 {
    if rho >= 1.0 {
        return f64::INFINITY;
    }
    erlang_c(servers, rho) * service / (f64::from(servers) * (1.0 - rho))
}

/// Mean wait in M/G/c, after Lee and Longton (1959): M/M/c's, scaled by the service's variation. Exact for one server.
pub fn mgc_wait(servers: u32, rho: f64, service: f64, squared_variation: f64) -> f64 {
    mmc_wait(servers, rho, service) * (1.0 + squared_variation) / 2.0
}

/// Throughput of a closed loop of `clients` over stations, each with its service demand per operation and its servers, and a pause
/// (`think`) outside. Mean-value analysis; a station of c servers counts as one that is c times as fast and a delay for the rest (Seidmann, 1987).
pub fn closed_throughput(stations: &[(f64, u32)], think: f64, clients: u32) -> f64 {
    let fast: Vec<f64> = stations.iter().map(|(demand, servers)| demand / f64::from(*servers)).collect();
    let delay: f64 = think + stations.iter().map(|(d, c)| d * f64::from(c - 1) / f64::from(*c)).sum::<f64>();
    let mut queue = vec![0.0; stations.len()];
    let mut rate = 0.0;
    for n in 1..=clients {
        let response: Vec<f64> =
            fast.iter().zip(&queue).map(|(demand, there)| demand * (1.0 + there)).collect();
        rate = f64::from(n) / (delay + response.iter().sum::<f64>());
        for (there, response) in queue.iter_mut().zip(&response) {
            *there = rate * response;
        }
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn textbook_values() {
        // M/M/1 at ρ = 0.8: four services of waiting; M/D/1 half of it.
        assert!(near(mg1_wait(0.8, 1.0, 1.0), 4.0) && near(mg1_wait(0.8, 1.0, 0.0), 2.0));
        assert!(near(mmc_wait(1, 0.8, 1.0), 4.0) && near(mgc_wait(1, 0.8, 1.0, 0.0), 2.0));
        // M/M/2 at ρ = 0.75: C = 2ρ²/(1+ρ) = 0.642857…
        assert!(near(erlang_c(2, 0.75), 2.0 * 0.5625 / 1.75));
        assert!(mmc_wait(4, 1.0, 1.0).is_infinite() && near(erlang_c(4, 0.0), 0.0));
    }

    #[test]
    fn a_closed_loop_has_its_asymptotes() {
        // One client never queues; many are bound by the slowest station.
        let stations = [(2.0, 1), (1.0, 1)];
        assert!(near(closed_throughput(&stations, 1.0, 1), 0.25));
        assert!((closed_throughput(&stations, 1.0, 400) - 0.5).abs() < 1e-6);
        // Two servers: twice the bound, the same time for one.
        assert!(near(closed_throughput(&[(2.0, 2)], 0.0, 1), 0.5));
        assert!((closed_throughput(&[(2.0, 2)], 0.0, 400) - 1.0).abs() < 1e-2);
    }
}
