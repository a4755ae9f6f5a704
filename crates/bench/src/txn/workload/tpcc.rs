//! TPC-C's new-order and payment, by their key counts. Prices, taxes and the rules of the benchmark are left out, so its figures are none of TPC-C's.

use super::{Task, number, value};
use base::Prng;
use protocol::chain::Transaction;

const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;
/// Customers of a district.
const CUSTOMERS: u64 = 100;
/// What is preloaded besides items and their stock: customers, with the warehouses and districts that are theirs.
pub(super) const PLACES: u64 = WAREHOUSES * DISTRICTS * CUSTOMERS;

fn warehouse(w: u64) -> String {
    format!("w:{w}")
}

fn customer(w: u64, d: u64, c: u64) -> String {
    format!("c:{w}:{d}:{c}")
}

/// The number of the district's next order.
fn next_order(w: u64, d: u64) -> String {
    format!("next:{w}:{d}")
}

fn item(i: u64) -> String {
    format!("i:{i:07}")
}

fn stock(w: u64, i: u64) -> String {
    format!("s:{w}:{i:07}")
}

/// Rows below `items` are items, with the stock of the warehouse that they fall to; the others are customers.
pub(super) fn put_row(row: u64, items: u64, into: &mut Transaction, prng: &mut Prng) {
    let rows = std::mem::take(into);
    *into = match row.checked_sub(items) {
        None => rows.put(item(row), value(88, prng)).put(stock(row % WAREHOUSES, row), "1000000"),
        Some(place) => {
            let (w, d) = (place % WAREHOUSES, place / WAREHOUSES % DISTRICTS);
            let rows = rows.put(customer(w, d, place / WAREHOUSES / DISTRICTS), value(664, prng));
            let rows = if place < WAREHOUSES { rows.put(warehouse(w), value(96, prng)) } else { rows };
            if place < WAREHOUSES * DISTRICTS { rows.put(next_order(w, d), "1") } else { rows }
        }
    };
}

pub(super) fn task(items: u64, (client, number): (u64, u64), prng: &mut Prng) -> Task {
    let (w, d, c) = (prng.below(WAREHOUSES), prng.below(DISTRICTS), prng.below(CUSTOMERS));
    if prng.below(45 + 43) < 45 {
        new_order(items, (w, d, c), prng)
    } else {
        payment((w, d, c), (client, number), prng)
    }
}

/// Reads warehouse, customer and n items; writes district, new-order, order, its index, n stocks and n lines.
fn new_order(items: u64, (w, d, c): (u64, u64, u64), prng: &mut Prng) -> Task {
    let mut lines: Vec<(u64, i64)> = Vec::new();
    for _ in 0..5 + prng.below(11) {
        let chosen = prng.below(items);
        if !lines.iter().any(|(item, _)| *item == chosen) {
            lines.push((chosen, 1 + prng.below(10) as i64));
        }
    }
    let parts = [value(24, prng), value(40, prng), value(16, prng), value(54, prng)];
    let then = move |found: &[Option<_>]| {
        let order = number(found.first());
        let [new, head, index, line] = &parts;
        let begin = Transaction::new()
            .if_value(next_order(w, d), order.to_string())
            .add(next_order(w, d), 1)
            .get(warehouse(w))
            .get(customer(w, d, c))
            .put(format!("no:{w}:{d}:{order}"), &new[..])
            .put(format!("o:{w}:{d}:{order}"), &head[..])
            .put(format!("oc:{w}:{d}:{c}:{order}"), &index[..]);
        lines.iter().enumerate().fold(begin, |transaction, (at, (i, quantity))| {
            transaction
                .get(item(*i))
                .add(stock(i % WAREHOUSES, *i), -quantity)
                .put(format!("ol:{w}:{d}:{order}:{at}"), &line[..])
        })
    };
    Task::Looked { look: Transaction::new().get(next_order(w, d)), then: Box::new(then) }
}

/// Writes what warehouse, district and customer have paid, and a line of history.
fn payment((w, d, c): (u64, u64, u64), (client, number): (u64, u64), prng: &mut Prng) -> Task {
    let amount = 1 + prng.below(5000) as i64;
    Task::Once(
        Transaction::new()
            .add(format!("wy:{w}"), amount)
            .add(format!("dy:{w}:{d}"), amount)
            .add(format!("cb:{w}:{d}:{c}"), -amount)
            .put(format!("h:{client}:{number}"), value(46, prng)),
    )
}
