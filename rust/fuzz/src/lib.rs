//! What the fuzz targets hold against each other.

use jobsleuth_formats::{Context, Decoder, Error, Family, Input, Limits, Result, SliceInput, Visitor};

/// Caps small enough that a fault in keeping them shows as memory that runs out.
pub fn limits() -> Limits {
    Limits { max_value_bytes: 16 << 20, max_expansion: 200, max_template_bytes: 1 << 20, allow_newer: false }
}

/// The bytes of a plain string.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80];
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
    out
}

/// Counts what a value consists of, and folds all of its bytes into one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub elements: u64,
    pub bytes: u64,
    pub hash: u64,
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.elements += 1;
        self.bytes += bytes.len() as u64;
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

impl Visitor for Digest {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        self.add(value)
    }
    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        self.add(value)
    }
    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        self.add(member)
    }
    fn zset_member(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.add(member)?;
        self.add(&score.to_le_bytes())
    }
    fn hash_field(&mut self, field: &[u8], value: &[u8], _expire_at_ms: Option<i64>) -> Result<()> {
        self.add(field)?;
        self.add(value)
    }
    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.hash_field(field, value, None)
    }
    fn array_item(&mut self, _index: u64, value: &[u8]) -> Result<()> {
        self.add(value)
    }
}

/// Decodes one value of a type from bytes that start with it.
pub fn decode(family: Family, version: u32, rdb_type: u8, value: &[u8]) -> Result<Digest> {
    let ctx = Context::new(family, version, limits());
    let mut digest = Digest::default();
    let mut input = SliceInput::new(value, 0);
    let outcome = Decoder::new().decode(&ctx, rdb_type, &mut input, &mut digest);
    check(&outcome, value.len());
    assert!(input.offset() <= value.len() as u64);
    outcome.map(|()| digest)
}

/// An error has its place inside the bytes, and a message of one line.
pub fn check<T>(outcome: &Result<T>, len: usize) {
    if let Err(error) = outcome {
        check_error(error, len);
    }
}

pub fn check_error(error: &Error, len: usize) {
    assert!(error.offset <= len as u64, "{error}");
    assert!(!error.to_string().chars().any(char::is_control), "{error}");
}
