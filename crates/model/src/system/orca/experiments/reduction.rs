//! E5: embedding reduction of six data sets by host cores, by the accelerator over UPI, and with local memory.

use super::super::reduction::{DATA_SETS, DataSet, Method, Reducer, peak, query};
use super::super::serve::Data;
use super::{LOCAL, PROTOTYPE};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};

/// The paper's are 1 and 8.
const CORES: [u64; 9] = [1, 2, 4, 6, 8, 10, 12, 16, 20];
/// Of an embedding; the paper's is 64.
const DIMENSIONS: [u64; 4] = [16, 32, 64, 128];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let mut rows = Rows::default();
    for method in [Method::Merci, Method::Native] {
        for dimensions in DIMENSIONS {
            for set in &DATA_SETS {
                point(platforms, &mut rows, (set, method, dimensions), seed)?;
            }
        }
    }
    against_native(&mut rows);
    Ok(rows)
}

fn label(set: &DataSet, method: Method, dimensions: u64) -> String {
    let usual = if dimensions == 64 { String::new() } else { format!(", {dimensions} dimensions") };
    format!("{}, {}{usual}", set.name, method.name())
}

fn point(
    platforms: &Platforms,
    rows: &mut Rows,
    (set, method, dimensions): (&DataSet, Method, u64),
    seed: u64,
) -> Result<(), LoadError> {
    let label = label(set, method, dimensions);
    let mut variants: Vec<(String, &str, Reducer)> =
        CORES.iter().map(|n| (format!("CPU {n}-core"), PROTOTYPE, Reducer::Host(*n))).collect();
    variants.push(("ORCA".into(), PROTOTYPE, Reducer::Accelerator(Data::Host)));
    variants.extend(LOCAL.map(|(name, on)| (name.into(), on, Reducer::Accelerator(Data::Local))));
    let mut cpu = [0.0; 2];
    for (variant, on, reducer) in &variants {
        let platform = platforms.named(on)?;
        let of = query(&platform, set, method, dimensions)?;
        let (rate, _) = peak(&platform, *reducer, of, seed)?;
        let at = ("E5", &**variant, &*label);
        rows.add(at, "throughput", "Kops", rate / 1e3);
        rows.add(at, "rows read", "Mops", rate * of.0.rows as f64 / 1e6);
        rows.add(at, "row bandwidth", "GB/s", rate * (of.0.rows * of.0.row) as f64 / 1e9);
        match reducer {
            Reducer::Host(1) => cpu[0] = rate,
            Reducer::Host(8) => cpu[1] = rate,
            Reducer::Host(_) => {}
            Reducer::Accelerator(data) => {
                let watts = platform.value("accelerator.power", crate::platform::unit::Dimension::Power)?;
                rows.add(at, "requests per watt", "Kops/W", rate / 1e3 / watts);
                if *data == Data::Host {
                    let parser =
                        platform.value("rec.preprocess", crate::platform::unit::Dimension::Frequency)?;
                    rows.add(at, "host cores busy", "cores", rate / parser);
                }
            }
        }
        rows.add(at, "throughput over CPU 1-core", "ratio", rate / cpu[0]);
        if cpu[1] > 0.0 {
            rows.add(at, "throughput over CPU 8-core", "ratio", rate / cpu[1]);
        }
    }
    Ok(())
}

/// What memoising gains.
fn against_native(rows: &mut Rows) {
    let variants = ["CPU 1-core", "CPU 8-core", "ORCA", "ORCA-LD", "ORCA-LH"];
    for set in &DATA_SETS {
        let (merci, native) = (label(set, Method::Merci, 64), label(set, Method::Native, 64));
        for variant in variants {
            let of = |label: &str| rows.find("E5", variant, label, "throughput").map(|row| row.value);
            if let (Some(a), Some(b)) = (of(&merci), of(&native)) {
                rows.add(("E5", variant, &merci), "throughput over native", "ratio", a / b);
            }
        }
    }
}
