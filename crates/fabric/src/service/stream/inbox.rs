//! Items that came for a call, by their number: early ones wait, what was taken twice or is outside the window is a violation.
//!
//! ```text
//!        first                     limit
//!  taken │ ready … │ gap │ early … │ not allowed yet        numbers modulo 2³²
//! ```

use std::collections::VecDeque;

/// Items by number.
pub(super) struct Inbox {
    items: VecDeque<Option<Box<[u8]>>>,
    /// Items at the front without a gap.
    ready: usize,
    first: u32,
    limit: u32,
    total: Option<u32>,
    pub(super) owed: u32,
    half: u32,
}

impl Inbox {
    pub(super) fn new(window: u32) -> Inbox {
        let half = (window / 2).max(1);
        Inbox { items: VecDeque::new(), ready: 0, first: 0, limit: window, total: None, owed: 0, half }
    }

    /// Puts an item in its place; bytes that can be taken now and could not before.
    pub(super) fn put(&mut self, number: u32, body: &[u8]) -> Result<usize, &'static str> {
        let ahead = number.wrapping_sub(self.first);
        let end = self.total.unwrap_or(self.limit);
        if ahead >= self.limit.wrapping_sub(self.first) || ahead >= end.wrapping_sub(self.first) {
            return Err("an item outside its window");
        }
        let at = ahead as usize;
        if self.items.len() <= at {
            self.items.resize_with(at + 1, || None);
        }
        if self.items[at].replace(body.into()).is_some() {
            return Err("an item came twice");
        }
        let mut bytes = 0;
        while let Some(Some(item)) = self.items.get(self.ready) {
            bytes += item.len();
            self.ready += 1;
        }
        Ok(bytes)
    }

    pub(super) fn finish(&mut self, total: u32) -> Result<(), &'static str> {
        let left = total.wrapping_sub(self.first);
        let window = self.limit.wrapping_sub(self.first);
        if self.total.is_some() || left > window || (left as usize) < self.items.len() {
            return Err("a stream's end that does not fit its items");
        }
        self.total = Some(total);
        Ok(())
    }

    pub(super) fn take(&mut self) -> Option<Box<[u8]>> {
        if self.ready == 0 {
            return None;
        }
        let item = self.items.pop_front().flatten().expect("items that are ready are there");
        self.ready -= 1;
        self.first = self.first.wrapping_add(1);
        self.owed += u32::from(self.total.is_none());
        Some(item)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.total == Some(self.first)
    }

    pub(super) fn owes_credit(&self) -> bool {
        self.total.is_none() && self.owed >= self.half
    }

    pub(super) fn credited(&mut self) {
        self.limit = self.limit.wrapping_add(std::mem::take(&mut self.owed));
    }

    /// Drops all; bytes that could be taken.
    pub(super) fn clear(&mut self) -> usize {
        let bytes = self.items.iter().take(self.ready).flatten().map(|item| item.len()).sum();
        self.items = VecDeque::new();
        self.ready = 0;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order_whatever_order_they_arrive_in() {
        let mut inbox = Inbox::new(4);
        // Close to where numbers wrap.
        (inbox.first, inbox.limit) = (u32::MAX, 3);
        assert_eq!(inbox.put(1, b"c"), Ok(0));
        assert!(inbox.take().is_none());
        assert_eq!(inbox.put(u32::MAX, b"a"), Ok(1));
        assert_eq!(inbox.put(0, b"b"), Ok(2));
        let order: Vec<_> = std::iter::from_fn(|| inbox.take()).collect();
        assert_eq!(order.concat(), b"abc");
        assert!(inbox.owes_credit());
        inbox.credited();
        assert_eq!((inbox.first, inbox.limit), (2, 6));
    }

    #[test]
    fn what_does_not_fit_the_window_is_a_violation() {
        let mut inbox = Inbox::new(2);
        assert_eq!(inbox.put(2, b""), Err("an item outside its window"));
        assert_eq!(inbox.put(0, b""), Ok(0));
        assert_eq!(inbox.put(0, b""), Err("an item came twice"));
        assert!(inbox.take().is_some());
        assert_eq!(inbox.put(0, b""), Err("an item outside its window"), "it was taken already");
        assert!(inbox.finish(0).is_err() && inbox.finish(3).is_err());
        assert_eq!(inbox.finish(1), Ok(()));
        assert!(inbox.is_finished() && inbox.finish(1).is_err());
        assert_eq!(inbox.put(1, b""), Err("an item outside its window"), "behind the end");
    }
}
