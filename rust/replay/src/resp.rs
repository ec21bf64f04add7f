//! Commands in the form in which clients send them and append-only files keep them.

use jobsleuth_formats::{Error, ErrorKind, Input, Result};

/// A command and its arguments, in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// An argument; 0 is the command's name.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = i.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.bytes.get(start..end)
    }

    /// The arguments from one on.
    pub fn from(&self, i: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (i.min(self.len())..self.len()).map(|i| self.get(i).unwrap_or_default())
    }

    /// Name of the command in capitals.
    pub fn name(&self) -> Vec<u8> {
        self.get(0).unwrap_or_default().to_ascii_uppercase()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// What stands in a file of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// It is in the [`Args`] given.
    Command,
    /// A note of the time, in Unix seconds.
    Time(i64),
    /// A note that is not understood.
    Note,
}

/// Reads a file of commands.
pub struct Commands<I> {
    input: I,
    max_value_bytes: u64,
    /// Lines of plain words are commands too.
    inline: bool,
}

/// Longest line that announces a number, and longest note.
const MAX_NUMBER: usize = 32;
const MAX_LINE: usize = 64 << 10;
/// A note of a later time than this, Unix seconds, is none: the year is 36,812.
const LAST_TIME: i64 = 1 << 40;
/// More arguments than any client sends.
const MAX_ARGS: u64 = 1 << 30;

impl<I: Input> Commands<I> {
    pub fn new(input: I, max_value_bytes: u64, inline: bool) -> Self {
        Commands { input, max_value_bytes, inline }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The next unit, `None` at the end.
    ///
    /// # Errors
    /// [`Truncated`](ErrorKind::Truncated) where the file ends inside a command; bytes that are no command; those of
    /// reading.
    pub fn next(&mut self, args: &mut Args) -> Result<Option<Unit>> {
        args.clear();
        loop {
            if !self.any()? {
                return Ok(None);
            }
            let at = self.input.offset();
            match self.input.buffered().first() {
                Some(b'*') => {
                    if self.command(args)? {
                        return Ok(Some(Unit::Command));
                    }
                }
                Some(b'#') => {
                    let line = self.line(MAX_LINE, "a note that does not end")?;
                    let time = line.strip_prefix(b"#TS:").and_then(number::<i64>);
                    let time = time.filter(|seconds| (1..LAST_TIME).contains(seconds));
                    return Ok(Some(time.map_or(Unit::Note, Unit::Time)));
                }
                Some(b'\r' | b'\n') if self.inline => self.input.consume(1),
                Some(_) if self.inline => {
                    let most = usize::try_from(self.max_value_bytes).unwrap_or(usize::MAX);
                    let line = self.line(most, "a line that does not end")?;
                    words(&line, args).map_err(|what| Error::corrupt(at, what))?;
                    if !args.is_empty() {
                        return Ok(Some(Unit::Command));
                    }
                }
                _ => return Err(Error::corrupt(at, "a command is wanted here")),
            }
        }
    }

    /// Whether there is another byte.
    fn any(&mut self) -> Result<bool> {
        if !self.input.buffered().is_empty() {
            return Ok(true);
        }
        if self.input.remaining() == 0 {
            return Ok(false);
        }
        match self.input.fill(1) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind, ErrorKind::Truncated { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads `*n` and n strings; whether there is any.
    fn command(&mut self, args: &mut Args) -> Result<bool> {
        let at = self.input.offset();
        let Some(count) = self.announced(b'*')?.filter(|&n| n <= MAX_ARGS) else {
            return Err(Error::corrupt(at, "a command without the number of its arguments"));
        };
        for _ in 0..count {
            let at = self.input.offset();
            if !self.any()? {
                return Err(Error::truncated(at, 1));
            }
            let Some(len) = self.announced(b'$')? else {
                return Err(Error::corrupt(at, "an argument without its length"));
            };
            if len > self.max_value_bytes {
                let cap = self.max_value_bytes;
                return Err(Error::new(at, ErrorKind::Limit { what: "an argument", asked: len, cap }));
            }
            self.bytes(len, args)?;
            if self.input.array::<2>()? != *b"\r\n" {
                let at = self.input.offset().saturating_sub(2);
                return Err(Error::corrupt(at, "an argument that is longer than its length"));
            }
            args.end();
        }
        Ok(count > 0)
    }

    /// Takes `len` bytes as they arrive.
    fn bytes(&mut self, len: u64, args: &mut Args) -> Result<()> {
        let mut left = len;
        while left > 0 {
            if !self.any()? {
                return Err(Error::truncated(self.input.offset(), left));
            }
            let some = self.input.buffered();
            let some = some.get(..some.len().min(usize::try_from(left).unwrap_or(usize::MAX))).unwrap_or_default();
            args.bytes.extend_from_slice(some);
            let taken = some.len();
            self.input.consume(taken);
            left = left.saturating_sub(taken as u64);
        }
        Ok(())
    }

    /// A number behind a mark, in a line of its own.
    fn announced(&mut self, mark: u8) -> Result<Option<u64>> {
        let line = self.line(MAX_NUMBER, "a number that does not end")?;
        Ok(match line.split_first() {
            Some((&found, digits)) if found == mark => number(digits),
            _ => None,
        })
    }

    /// A line without its end.
    fn line(&mut self, max: usize, what: &'static str) -> Result<Vec<u8>> {
        let start = self.input.offset();
        let mut line = Vec::new();
        loop {
            if !self.any()? {
                return Err(Error::truncated(self.input.offset(), 1));
            }
            let bytes = self.input.buffered();
            let found = bytes.iter().position(|&b| b == b'\n');
            let taken = found.map_or(bytes.len(), |at| at + 1);
            line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            if line.len() > max {
                return Err(Error::corrupt(start, what));
            }
            if found.is_some() {
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
        }
    }
}

/// A number in decimal digits.
pub(crate) fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Splits a line as redis-cli does: words between spaces, quoted ones with escapes. A quote inside a word is a byte of
/// it, since exporters that quote only where there is a space write it so.
fn words(line: &[u8], args: &mut Args) -> std::result::Result<(), &'static str> {
    let mut rest = line;
    loop {
        while let Some((b' ' | b'\t', tail)) = rest.split_first() {
            rest = tail;
        }
        match rest.split_first() {
            None => return Ok(()),
            Some((b'"', tail)) => rest = quoted(tail, args)?,
            Some((b'\'', tail)) => rest = single_quoted(tail, args)?,
            Some(_) => {
                let end = rest.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                args.bytes.extend_from_slice(word);
                rest = after;
            }
        }
        args.end();
        if !matches!(rest.first(), None | Some(b' ' | b'\t')) {
            return Err("a word that goes on behind its quotes");
        }
    }
}

/// Between single quotes only those are escaped.
fn single_quoted<'a>(mut rest: &'a [u8], args: &mut Args) -> std::result::Result<&'a [u8], &'static str> {
    loop {
        match rest {
            [b'\\', b'\'', tail @ ..] => {
                args.bytes.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return Ok(tail),
            [byte, tail @ ..] => {
                args.bytes.push(*byte);
                rest = tail;
            }
            [] => return Err("a word whose quotes do not end"),
        }
    }
}

fn quoted<'a>(mut rest: &'a [u8], args: &mut Args) -> std::result::Result<&'a [u8], &'static str> {
    loop {
        let (&byte, tail) = rest.split_first().ok_or("a word whose quotes do not end")?;
        rest = tail;
        match byte {
            b'"' => return Ok(rest),
            b'\\' => {
                let (&escaped, tail) = rest.split_first().ok_or("a word whose quotes do not end")?;
                rest = tail;
                let hex = rest.get(..2).and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
                args.bytes.push(match (escaped, hex) {
                    (b'x', Some(byte)) => {
                        rest = rest.get(2..).unwrap_or_default();
                        byte
                    }
                    (b'n', _) => b'\n',
                    (b'r', _) => b'\r',
                    (b't', _) => b'\t',
                    (b'a', _) => 7,
                    (b'b', _) => 8,
                    _ => escaped,
                });
            }
            _ => args.bytes.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobsleuth_formats::SliceInput;

    fn all(text: &[u8], inline: bool) -> Result<Vec<Vec<Vec<u8>>>> {
        let mut commands = Commands::new(SliceInput::new(text, 0), 1 << 20, inline);
        let mut args = Args::default();
        let mut found = Vec::new();
        while let Some(unit) = commands.next(&mut args)? {
            if unit == Unit::Command {
                found.push(args.from(0).map(<[u8]>::to_vec).collect());
            }
        }
        Ok(found)
    }

    /// Commands and notes as a server writes them, binary arguments among them.
    #[test]
    fn commands_come_out_as_they_are() {
        let text = b"#TS:1700000000\r\n*2\r\n$3\r\nGET\r\n$4\r\n\r\n\x00\xff\r\n*1\r\n$5\r\nMULTI\r\n";
        assert_eq!(
            all(text, false).unwrap(),
            [vec![b"GET".to_vec(), b"\r\n\x00\xff".to_vec()], vec![b"MULTI".to_vec()]]
        );
    }

    /// A time that no clock shows is a note that is not understood, and no time.
    #[test]
    fn times_are_possible_ones() {
        for (text, wanted) in [
            (&b"#TS:1700000000\r\n"[..], Unit::Time(1_700_000_000)),
            (b"#TS:9223372036854775807\r\n", Unit::Note),
            (b"#TS:1099511627776\r\n", Unit::Note),
            (b"#TS:0\r\n", Unit::Note),
            (b"#TS:-5\r\n", Unit::Note),
            (b"#TS:soon\r\n", Unit::Note),
            (b"# hello\r\n", Unit::Note),
        ] {
            let mut commands = Commands::new(SliceInput::new(text, 0), 1 << 20, false);
            assert_eq!(commands.next(&mut Args::default()).unwrap(), Some(wanted), "{text:?}");
        }
    }

    /// Every cut inside is told as a cut, every changed mark as damage; neither is a panic.
    #[test]
    fn cuts_and_damage_are_told_apart() {
        let text = b"*2\r\n$3\r\nGET\r\n$3\r\nabc\r\n";
        for end in 1..text.len() {
            let error = all(&text[..end], false).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Truncated { .. }), "{end}");
        }
        for bad in [&b"x"[..], b"*x\r\n", b"*1\r\n#3\r\nGET\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$2\r\nGET\r\n"] {
            assert!(matches!(all(bad, false).unwrap_err().kind, ErrorKind::Corrupt(_)), "{bad:?}");
        }
        let huge = b"*1\r\n$99999999999\r\n";
        assert!(matches!(all(huge, false).unwrap_err().kind, ErrorKind::Limit { .. }));
    }

    /// Lines of words, as `redis-cli --pipe` takes them.
    #[test]
    fn words_are_split_as_redis_cli_does() {
        let found = all(b"SET a  \"b\\x41\\n\\\"\"\n\nSET 'x y' z\r\nSET 'it\\'s \\n' {\"a\":1}\n", true).unwrap();
        assert_eq!(found[0], [b"SET".to_vec(), b"a".to_vec(), b"bA\n\"".to_vec()]);
        assert_eq!(found[1], [b"SET".to_vec(), b"x y".to_vec(), b"z".to_vec()]);
        assert_eq!(found[2], [b"SET".to_vec(), b"it's \\n".to_vec(), b"{\"a\":1}".to_vec()]);
        assert!(all(b"SET \"a\n", true).is_err());
        assert!(all(b"SET 'a\\'\n", true).is_err());
    }
}
