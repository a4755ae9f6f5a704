//! Transactions under claims, where another counts, none, or theirs.

use super::*;

/// Sometimes one that makes or ends a claim; else nothing yet, seldom under one.
pub(super) fn draw(random: &mut Prng) -> Txn {
    let txn = Txn { claim: random.below(16) / 14, ..Txn::default() };
    if random.below(24) > 0 {
        return txn;
    }
    let change = if random.below(3) == 0 { Change::Put(text("1")) } else { Change::Delete };
    Txn { writes: vec![(CLAIM.into(), change)], ..txn }
}

#[test]
fn what_is_not_under_the_claim_that_counts_is_not_done() {
    let claimed = |number: u64, mut sample: Sample| {
        let done = sample.done().expect("it was answered");
        (done.abort, done.reads) = (Some(Abort::Claimed), vec![]);
        sample.txn.claim = number;
        sample
    };
    let under = |number: u64, sample: Sample| Sample { txn: Txn { claim: number, ..sample.txn }, ..sample };
    let claim = |at: u64, lsn: u64, number: &str| Sample {
        txn: Txn { writes: vec![(CLAIM.into(), Change::Put(text(number)))], ..Txn::default() },
        ..sample(at, at + 1, "put a 0", lsn, &[], &[])
    };
    let after = |sample: Sample| [claim(0, 1, "7"), sample];
    let put = || sample(2, 3, "put a 1", 2, &[], &[]);
    good(&after(claimed(0, put())));
    good(&after(claimed(8, put())));
    good(&after(under(7, put())));
    bad(&after(put()), "aborted by Claimed");
    bad(&after(under(8, put())), "aborted by Claimed");
    bad(&after(claimed(7, put())), "done");
    let get = || sample(2, 3, "get a", 1, &[None], &[]);
    good(&after(get()));
    good(&after(under(7, get())));
    bad(&after(under(8, get())), "aborted by Claimed");
    // One that lags, and takes the claim before for the one that counts.
    let replaced =
        |read| [claim(0, 1, "7"), claim(2, 3, "8"), Sample { called: 4, returned: Some((5, read)), ..get() }];
    let read = |abort| {
        Ret::Done(Done {
            lsn: 1,
            abort,
            reads: if abort.is_none() { vec![None] } else { vec![] },
            sums: vec![],
        })
    };
    let as_seven = |samples: [Sample; 3]| {
        samples.map(|sample| if sample.txn.only_reads() { under(7, sample) } else { sample })
    };
    good(&replaced(read(None)));
    bad(&as_seven(replaced(read(None))), "older than LSN 3");
}
