//! The words of one request line, split at spaces and at nothing else, as memcached splits them.
//!
//! Positions are offsets into the line, which starts where the caller's buffer starts, so they are also counts of bytes
//! consumed.

use memchr::memchr;

/// Bytes of a word that are looked at one by one.
const SHORT_WORD: usize = 16;

/// An iterator over the words of a line.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    #[inline]
    pub(super) fn new(line: &'a [u8]) -> Tokens<'a> {
        Tokens { line, at: 0 }
    }

    /// Where the next word starts, or the line's length where there is none.
    #[inline]
    pub(super) fn skip_spaces(&mut self) -> usize {
        while self.at < self.line.len() && self.line[self.at] == b' ' {
            self.at += 1;
        }
        self.at
    }

    /// True where no word is left.
    #[inline]
    pub(super) fn is_done(mut self) -> bool {
        self.skip_spaces() == self.line.len()
    }

    /// What follows, from the next word to the end of the line.
    #[inline]
    pub(super) fn remainder(mut self) -> &'a [u8] {
        let at = self.skip_spaces();
        &self.line[at..]
    }

    /// The last word of what follows.
    pub(super) fn last_word(self) -> Option<&'a [u8]> {
        self.last()
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.skip_spaces();
        // Most words are shorter than what a vector search costs to start.
        let near = self.line.len().min(start + SHORT_WORD);
        while self.at < near && self.line[self.at] != b' ' {
            self.at += 1;
        }
        if self.at == near {
            self.at = memchr(b' ', &self.line[near..]).map_or(self.line.len(), |i| near + i);
        }
        (start < self.at).then(|| &self.line[start..self.at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_separate() {
        let words: Vec<_> = Tokens::new(b"  get  a\tb \r c  ").collect();
        assert_eq!(words, [&b"get"[..], b"a\tb", b"\r", b"c"]);
        assert_eq!(Tokens::new(b"   ").next(), None);
        assert_eq!(Tokens::new(b"").next(), None);
    }

    #[test]
    fn positions_and_remainders() {
        let mut tokens = Tokens::new(b"mg key  v t ");
        tokens.next();
        tokens.next();
        assert_eq!(tokens.remainder(), b"v t ");
        assert_eq!(tokens.skip_spaces(), 8);
        assert_eq!(tokens.last_word(), Some(&b"t"[..]));
        assert!(!tokens.is_done());
        assert!(tokens.by_ref().count() == 2 && tokens.is_done());
    }
}
