//! Reads a file line by line with positions, so that lines can be read again without keeping the file in memory.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpan {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    /// Bytes with the line end.
    pub(crate) length: u64,
}

impl LineSpan {
    pub(crate) fn end(self) -> u64 {
        self.offset + self.length
    }

    pub(crate) fn read(self, mut file: &File) -> Result<Vec<u8>> {
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = Vec::new();
        file.take(self.length).read_to_end(&mut text)?;
        Ok(text)
    }
}

pub(crate) struct LineReader<'a> {
    input: BufReader<&'a File>,
    longest: u64,
    last: LineSpan,
    text: Vec<u8>,
}

impl<'a> LineReader<'a> {
    /// Starts at offset 0. A line of more than `longest` bytes is an error.
    pub(crate) fn new(file: &'a File, longest: u64) -> Result<Self> {
        let mut input = BufReader::new(file);
        input.seek(SeekFrom::Start(0))?;
        Ok(Self {
            input,
            longest,
            last: LineSpan {
                number: 0,
                offset: 0,
                length: 0,
            },
            text: Vec::new(),
        })
    }

    /// Returns the next line that isn't empty, with its line end. The last line may have none.
    pub(crate) fn next(&mut self) -> Result<Option<(LineSpan, &[u8])>> {
        loop {
            self.text.clear();
            let mut line = (&mut self.input).take(self.longest.saturating_add(1));
            let length = line.read_until(b'\n', &mut self.text)? as u64;
            if length == 0 {
                return Ok(None);
            }
            self.last = LineSpan {
                number: self.last.number + 1,
                offset: self.last.end(),
                length,
            };
            if length > self.longest {
                let (number, longest) = (self.last.number, self.longest);
                let reason = format!("line {number} has more than {longest} bytes");
                return Err(Error::new(ErrorKind::FileTooLarge, reason));
            }
            if !self.text.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((self.last, &self.text)));
            }
        }
    }
}
