//! Where the values in a stream of JSON end, without looking at what they are: the parser does that.

/// A value that goes on beyond the most bytes that were allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// The bytes of a value as they come, in pieces of any size.
///
/// A value is an array or object up to its last bracket, or a run of other characters up to white space; between values there is
/// white space or nothing.
#[derive(Clone, Debug)]
pub struct Splitter {
    held: Vec<u8>,
    most: usize,
    brackets: usize,
    in_string: bool,
    escaped: bool,
}

impl Splitter {
    /// A splitter that holds at most `most` bytes.
    pub fn new(most: usize) -> Splitter {
        Splitter { held: Vec::new(), most, brackets: 0, in_string: false, escaped: false }
    }

    /// Takes bytes from the front of `input`, up to the end of a value if that is in it; then the value.
    ///
    /// # Errors
    /// The value is too long.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLong> {
        while let Some((&byte, rest)) = input.split_first() {
            if self.held.is_empty() && byte.is_ascii_whitespace() {
                *input = rest;
                continue;
            }
            let bare = self.brackets == 0 && !self.in_string;
            if bare && !self.held.is_empty() && (byte.is_ascii_whitespace() || matches!(byte, b'{' | b'[')) {
                return Ok(Some(self.finish()));
            }
            *input = rest;
            if self.held.len() == self.most {
                return Err(TooLong);
            }
            self.held.push(byte);
            if self.is_end(byte) {
                return Ok(Some(self.finish()));
            }
        }
        Ok(None)
    }

    /// What is left at the end of the stream, if anything: a value, or the beginning of one.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        (!self.held.is_empty()).then(|| self.finish())
    }

    fn finish(&mut self) -> Vec<u8> {
        let value = std::mem::take(&mut self.held);
        *self = Splitter::new(self.most);
        value
    }

    /// Whether a value ends with this byte.
    fn is_end(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.escaped) {
            return false;
        }
        match byte {
            b'\\' if self.in_string => self.escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                return !self.in_string && self.brackets == 0;
            }
            b'{' | b'[' if !self.in_string => self.brackets += 1,
            b'}' | b']' if !self.in_string => {
                self.brackets = self.brackets.saturating_sub(1);
                return self.brackets == 0;
            }
            _ => {}
        }
        false
    }
}
