//! Embedding reduction: queries that read and add rows of tables, from review data sets.
//!
//! A processor's cache holds the most popular rows, so that the size of a data set's tables decides how much of a core's time is memory's; the
//! accelerator's endpoint caches nothing of it. That is why the two compare differently from data set to data set.
//!
//! Not modelled: fully connected layers (light, ORCA Sec. VI-D), the length of single queries (all have the mean).

use super::serve::{Data, Popularity, Rings, Servers, Work};
use crate::kernel::{Kernel, ProgramId};
use crate::platform::{LoadError, Platform};

/// A data set, as model input.
#[derive(Clone, Copy, Debug)]
pub struct DataSet {
    /// As the paper calls it.
    pub name: &'static str,
    /// Products: rows of the tables.
    pub items: u64,
}

/// Amazon Review: products with ratings of each category (McAuley et al., 2014 release). The paper does not print them, nor which of its files it used:
/// an assumption, of which only the order of sizes matters much.
pub const DATA_SETS: [DataSet; 6] = [
    DataSet { name: "electronics", items: 476_002 },
    DataSet { name: "clothing-shoe-jewelry", items: 1_136_004 },
    DataSet { name: "home-kitchen", items: 410_243 },
    DataSet { name: "books", items: 2_330_066 },
    DataSet { name: "sports-outdoors", items: 478_898 },
    DataSet { name: "office-products", items: 130_006 },
];

/// How a query's rows are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each row is read.
    Native,
    /// Groups of rows that come together often are memoised.
    Merci,
}

impl Method {
    /// As the paper calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Native => "native",
            Method::Merci => "MERCI",
        }
    }
}

/// The work of a query with rows of `dimensions` numbers of 4 bytes, and what its rows' popularity is.
///
/// # Errors
/// The platform lacks a number.
pub fn query(
    platform: &Platform,
    set: &DataSet,
    method: Method,
    dimensions: u64,
) -> Result<(Work, Popularity), LoadError> {
    let row = dimensions * 4;
    let native = platform.count("rec.rows")?;
    let (share, size) = match method {
        Method::Native => (1.0, 1.0),
        Method::Merci => (platform.ratio("rec.memo_rows")?, 1.0 + platform.ratio("rec.memo_size")?),
    };
    let rows = (native as f64 * share).round() as u64;
    let cycles = platform.value("rec.row", crate::platform::unit::Dimension::Cycles)? * rows as f64;
    let tables = platform.count("rec.tables")?;
    // A request names products; each has a row in every table.
    let work = Work { request: native / tables * 4, reply: 64, rows, row, cycles, ..Work::default() };
    let keys = ((set.items * tables) as f64 * size).round() as u64;
    Ok((work, Popularity { keys, skew: platform.ratio("rec.skew")?, entry: row }))
}

/// Requests taken, or responses posted, together: at the peak.
const BATCH: u64 = 32;

/// Who reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// So many host cores.
    Host(u64),
    /// The accelerator.
    Accelerator(Data),
}

/// Queries per second at most, and what binds.
///
/// # Errors
/// The platform lacks a number.
pub fn peak(
    platform: &Platform,
    reducer: Reducer,
    (work, popularity): (Work, Popularity),
    seed: u64,
) -> Result<(f64, String), LoadError> {
    let cores = if let Reducer::Host(cores) = reducer { cores } else { 1 };
    let mut servers = Servers::new(platform, cores, popularity, BATCH, seed)?;
    let program = match reducer {
        Reducer::Host(_) => servers.host(&work)?,
        Reducer::Accelerator(data) => servers.accelerator(&work, data, Rings::Pointers)?,
    };
    Ok(bound(&servers.machine.kernel, program))
}

/// Operations per second that the busiest resource does, and its name.
fn bound(kernel: &Kernel, program: ProgramId) -> (f64, String) {
    let demand = kernel.demand(program);
    let seconds = |d: &crate::kernel::program::Demand| d.service.as_secs_f64() / kernel.servers(d.at) as f64;
    let busiest = demand.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let busiest = busiest.expect("a program that serves uses something");
    (1.0 / seconds(busiest), kernel.name_of(busiest.at).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;
    use proptest::prelude::*;

    fn platform(name: &str) -> Platform {
        shipped(name).expect("it is shipped").expect("it is right")
    }

    #[test]
    fn cores_add_up_until_memory_is_full() {
        let harp = platform("harp-upi");
        let of = query(&harp, &DATA_SETS[3], Method::Merci, 64).expect("it is complete");
        let rate = |cores| peak(&harp, Reducer::Host(cores), of, 1).expect("it is complete");
        assert!((rate(4).0 / rate(1).0 - 4.0).abs() < 1e-3);
        assert!(rate(20).0 / rate(1).0 < 12.0 && rate(20).1.starts_with("host memory channel"));
    }

    proptest! {
        #[test]
        fn more_memory_bandwidth_is_never_worse(gigabytes in 1.0f64..40.0, more in 0.0f64..40.0) {
            let ddr = platform("u280-ddr4");
            let of = query(&ddr, &DATA_SETS[0], Method::Merci, 64).expect("it is complete");
            let rate = |bandwidth| {
                let changed = ddr.with("local.bandwidth", bandwidth);
                peak(&changed, Reducer::Accelerator(Data::Local), of, 1).expect("it is complete").0
            };
            prop_assert!(rate(gigabytes + more) >= rate(gigabytes));
        }
    }
}
