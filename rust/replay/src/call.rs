//! A command at work: its arguments, the database it is in, the time.

use jobsleuth_formats::{Kind, Limits};

use crate::resp::{Args, number};
use crate::space::{Refused, Space};

/// A command that is being replayed.
pub struct Call<'a> {
    pub space: &'a mut Space,
    pub args: &'a Args,
    pub db: u64,
    /// Unix ms, where the file notes the time.
    pub now_ms: Option<i64>,
    /// The file is one of Redis before 7.0.
    pub before_7: bool,
    pub limits: Limits,
    /// A time to live counts from a time that is not known: it was dropped.
    pub lost_expiries: u64,
}

impl<'a> Call<'a> {
    /// An argument that must be there.
    pub fn arg(&self, i: usize) -> Result<&'a [u8], Refused> {
        self.args.get(i).ok_or(Refused::Arguments)
    }

    /// An option in capitals.
    pub fn word(&self, i: usize) -> Option<Vec<u8>> {
        self.args.get(i).map(<[u8]>::to_ascii_uppercase)
    }

    pub fn int(&self, i: usize) -> Result<i64, Refused> {
        number(self.arg(i)?).ok_or(Refused::Number)
    }

    pub fn count(&self, i: usize) -> Result<usize, Refused> {
        number(self.arg(i)?).ok_or(Refused::Number)
    }

    pub fn float(&self, i: usize) -> Result<f64, Refused> {
        float(self.arg(i)?).ok_or(Refused::Number)
    }

    /// At least so many arguments besides the name.
    pub fn at_least(&self, n: usize) -> Result<(), Refused> {
        if self.args.len() > n { Ok(()) } else { Err(Refused::Arguments) }
    }

    /// A number of keys, and those, from an argument on; where what follows begins.
    pub fn keys(&self, i: usize) -> Result<(Vec<&'a [u8]>, usize), Refused> {
        let n = self.count(i)?;
        let end = i.checked_add(1).and_then(|first| first.checked_add(n)).ok_or(Refused::Arguments)?;
        if n == 0 || end > self.args.len() {
            return Err(Refused::Arguments);
        }
        Ok((self.args.from(i + 1).take(n).collect(), end))
    }

    /// When a time to live ends; counted in the units given, from now or from the epoch.
    pub fn moment(&mut self, amount: i64, unit_ms: i64, relative: bool) -> Result<Option<i64>, Refused> {
        let ms = amount.checked_mul(unit_ms).ok_or(Refused::Number)?;
        if !relative {
            return Ok(Some(ms));
        }
        match self.now_ms {
            Some(now) => now.checked_add(ms).map(Some).ok_or(Refused::Number),
            None => {
                self.lost_expiries += 1;
                Ok(None)
            }
        }
    }

    /// The expiry that `EX`, `PX`, `EXAT` or `PXAT` and the argument behind it say.
    pub fn expiry(&mut self, word: &[u8], i: usize) -> Result<Option<i64>, Refused> {
        let amount = self.int(i)?;
        match word {
            b"EX" => self.moment(amount, 1000, true),
            b"PX" => self.moment(amount, 1, true),
            b"EXAT" => self.moment(amount, 1000, false),
            b"PXAT" => self.moment(amount, 1, false),
            _ => Err(Refused::Arguments),
        }
    }

    pub fn added(&mut self, key: &[u8], kind: Kind, member: &[u8]) {
        self.space.added(self.db, key, kind, member);
    }

    pub fn removed(&mut self, key: &[u8], kind: Kind, member: &[u8]) {
        self.space.removed(self.db, key, kind, member);
    }

    /// Removes the key if its collection is empty now.
    pub fn tidy(&mut self, key: &[u8]) {
        self.space.tidy(self.db, key);
    }
}

/// A number with a fraction; infinities too, but nothing that is no number. Servers read it with `strtod`, and write a
/// command down as it came: `0x10` is 16.
pub fn float(text: &[u8]) -> Option<f64> {
    number::<f64>(text).or_else(|| hexadecimal(text)).filter(|n| !n.is_nan())
}

/// `0x1.8p3`: digits to the base 16, and the power of two that they are taken times.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let (sign, rest) = match text.split_first()? {
        (b'-', rest) => (-1.0, rest),
        (b'+', rest) => (1.0, rest),
        _ => (1.0, text),
    };
    let rest = rest.strip_prefix(b"0x").or_else(|| rest.strip_prefix(b"0X"))?;
    let (digits, power) = match rest.iter().position(|b| b.eq_ignore_ascii_case(&b'p')) {
        Some(at) => (rest.get(..at)?, number::<i32>(rest.get(at + 1..)?)?),
        None => (rest, 0),
    };
    let (mut value, mut scale, mut seen, mut behind_point) = (0.0, 1.0, false, false);
    for &byte in digits {
        if byte == b'.' && !behind_point {
            behind_point = true;
            continue;
        }
        value = value * 16.0 + f64::from(char::from(byte).to_digit(16)?);
        scale *= if behind_point { 16.0 } else { 1.0 };
        seen = true;
    }
    seen.then(|| sign * value / scale * 2f64.powi(power))
}

#[cfg(test)]
mod tests {
    use super::float;

    /// What a server of 6.2, 7.0 and 8.2 said to each as the score of ZADD: the number, or that it is none.
    #[test]
    fn numbers_are_what_servers_take_for_them() {
        for (text, wanted) in [
            ("0x10", Some(16.0)),
            ("0X1F", Some(31.0)),
            ("-0x1p3", Some(-8.0)),
            ("0x1.8P-1", Some(0.75)),
            ("0xfffffffffffff", Some(4_503_599_627_370_495.0)),
            ("+5", Some(5.0)),
            (".5", Some(0.5)),
            ("1.", Some(1.0)),
            ("1e-320", Some(1e-320)),
            ("+Inf", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("nan", None),
            (" 1", None),
            ("1_0", None),
            ("0x", None),
            ("0x.", None),
            ("", None),
        ] {
            assert_eq!(float(text.as_bytes()), wanted, "{text}");
        }
    }
}
