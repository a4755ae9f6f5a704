//! SmallBank: accounts with savings and checking; nine in ten transactions are about the first four in a hundred accounts.

use super::{Task, number, version};
use base::Prng;
use protocol::chain::Transaction;

/// What each account begins with, in each of its two parts.
const BEGIN: i64 = 10_000;

fn savings(account: u64) -> String {
    format!("savings:{account:08}")
}

fn checking(account: u64) -> String {
    format!("checking:{account:08}")
}

pub(super) fn put_account(account: u64, into: &mut Transaction) {
    let begin = BEGIN.to_string();
    let put = std::mem::take(into).put(savings(account), &begin[..]).put(checking(account), &begin[..]);
    *into = put;
}

pub(super) fn task(accounts: u64, prng: &mut Prng) -> Task {
    let hot = (accounts / 25).max(1);
    let mut account = || if prng.chance(0.9) { prng.below(hot) } else { prng.below(accounts) };
    let one = account();
    let mut other = account();
    if other == one {
        other = (one + 1) % accounts;
    }
    let amount = 1 + prng.below(100) as i64;
    match prng.below(100) {
        0..15 => amalgamate(one, other),
        15..30 => Task::Once(Transaction::new().get(savings(one)).get(checking(one))),
        30..45 => Task::Once(Transaction::new().add(checking(one), amount)),
        45..70 => Task::Once(
            Transaction::new()
                .if_at_least(checking(one), amount)
                .add(checking(one), -amount)
                .add(checking(other), amount),
        ),
        70..85 => Task::Once(Transaction::new().if_at_least(savings(one), -amount).add(savings(one), amount)),
        _ => write_check(one, amount),
    }
}

/// Everything of one account goes to the other's checking.
fn amalgamate(one: u64, other: u64) -> Task {
    let look = Transaction::new().get(savings(one)).get(checking(one));
    let then = move |found: &[Option<_>]| {
        let all = number(found.first()).saturating_add(number(found.get(1)));
        Transaction::new()
            .if_version(savings(one), version(found.first()))
            .if_version(checking(one), version(found.get(1)))
            .put(savings(one), "0")
            .put(checking(one), "0")
            .add(checking(other), all)
    };
    Task::Looked { look, then: Box::new(then) }
}

/// A check that is not covered costs one more.
fn write_check(account: u64, amount: i64) -> Task {
    let look = Transaction::new().get(savings(account)).get(checking(account));
    let then = move |found: &[Option<_>]| {
        let covered = number(found.first()).saturating_add(number(found.get(1))) >= amount;
        let cost = if covered { amount } else { amount + 1 };
        Transaction::new()
            .if_version(savings(account), version(found.first()))
            .if_version(checking(account), version(found.get(1)))
            .add(checking(account), -cost)
    };
    Task::Looked { look, then: Box::new(then) }
}
