//! The protobuf wire format, read as Go's `proto.Unmarshal` reads a proto3 message.

use std::fmt;

use hashbrown::HashMap;

use crate::text::utf8;

/// What a field's bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    String,
    Bytes,
    Int32,
    Int64,
    StringMap,
}

/// A decoded field. Scalars that are absent are zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Int(i64),
    /// Entries in the order of first appearance; of a key that comes twice the last value.
    Map(Vec<(&'a str, &'a str)>),
}

impl Value<'_> {
    fn zero(kind: Kind) -> Self {
        match kind {
            Kind::String => Value::Text(""),
            Kind::Bytes => Value::Bytes(&[]),
            Kind::Int32 | Kind::Int64 => Value::Int(0),
            Kind::StringMap => Value::Map(Vec::new()),
        }
    }
}

/// Why the bytes are no such message, and where in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub at: usize,
    pub field: Option<u32>,
    pub what: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(number) => write!(f, "{} in field {number} at byte {}", self.what, self.at),
            None => write!(f, "{} at byte {}", self.what, self.at),
        }
    }
}

/// Fields that the schema does not have, or not with this wire type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// The fields as they stand in the message, one after the other.
    pub raw: Vec<u8>,
    tags: Vec<(u32, Wire)>,
    more: bool,
}

/// Kinds of unknown fields that are named; a real message has a few, a hostile one millions.
const NAMED: usize = 100;

impl Unknown {
    fn add(&mut self, number: u32, wire: Wire, raw: &[u8]) {
        self.raw.extend_from_slice(raw);
        if self.tags.contains(&(number, wire)) {
            return;
        }
        if self.tags.len() < NAMED {
            self.tags.push((number, wire));
        } else {
            self.more = true;
        }
    }

    /// `number:wire type` of each kind of field, in order of first appearance; `…` last if there are too many.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let tags = self.tags.iter().map(|(number, wire)| format!("{number}:{}", wire.name()));
        tags.chain(self.more.then(|| "…".to_owned()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Bytes,
    Group,
    EndGroup,
    Fixed32,
}

impl Wire {
    fn name(self) -> &'static str {
        match self {
            Wire::Varint => "varint",
            Wire::Fixed64 => "fixed64",
            Wire::Bytes => "bytes",
            Wire::Group | Wire::EndGroup => "group",
            Wire::Fixed32 => "fixed32",
        }
    }

    /// The wire type that a field of this kind has.
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Int32 | Kind::Int64 => Wire::Varint,
            Kind::String | Kind::Bytes | Kind::StringMap => Wire::Bytes,
        }
    }
}

/// Reads a message with these fields (number and kind); the values come in their order.
///
/// A known number with another wire type is an unknown field, as in Go: what wrote it has another schema.
pub(crate) fn decode<'a>(message: &'a [u8], fields: &[(u32, Kind)]) -> Result<(Vec<Value<'a>>, Unknown), Fault> {
    let mut values: Vec<Value<'a>> = fields.iter().map(|&(_, kind)| Value::zero(kind)).collect();
    let mut unknown = Unknown::default();
    let mut reader = Reader { bytes: message, at: 0 };
    while reader.at < message.len() {
        let start = reader.at;
        let (number, wire) = reader.tag(MAX_NUMBER)?;
        let place = fields.iter().position(|&(n, kind)| n == number && Wire::of(kind) == wire);
        let understood = match place.and_then(|at| Some((fields.get(at)?.1, values.get_mut(at)?))) {
            Some((kind, value)) => reader.value(number, kind, value)?,
            None => reader.skip(number, wire).map(|()| false)?,
        };
        if !understood {
            unknown.add(number, wire, message.get(start..reader.at).unwrap_or_default());
        }
    }
    for value in &mut values {
        if let Value::Map(entries) = value {
            keep_last(entries);
        }
    }
    Ok((values, unknown))
}

/// Makes the keys of a map distinct: each at its first place, with its last value.
fn keep_last<'a>(entries: &mut Vec<(&'a str, &'a str)>) {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let mut kept: Vec<(&str, &str)> = Vec::with_capacity(entries.len());
    for &(key, item) in entries.iter() {
        match places.get(key).and_then(|&place| kept.get_mut(place)) {
            Some(entry) => entry.1 = item,
            None => {
                places.insert(key, kept.len());
                kept.push((key, item));
            }
        }
    }
    *entries = kept;
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Groups may stand in groups; no deeper than this.
const MAX_DEPTH: usize = 10_001;
/// Highest number of a field of a message.
const MAX_NUMBER: u64 = (1 << 29) - 1;
/// Highest number that Go lets pass inside a group, which it only passes over.
const MAX_IN_GROUP: u64 = i32::MAX as u64;

impl<'a> Reader<'a> {
    fn fault<T>(&self, at: usize, field: Option<u32>, what: &'static str) -> Result<T, Fault> {
        Err(Fault { at, field, what })
    }

    fn varint(&mut self, field: Option<u32>) -> Result<u64, Fault> {
        let start = self.at;
        let mut n = 0u64;
        for shift in 0..10u32 {
            let Some(&byte) = self.bytes.get(self.at) else {
                return self.fault(self.bytes.len(), field, "the message is cut short");
            };
            self.at += 1;
            if shift == 9 && byte > 1 {
                break;
            }
            n |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                return Ok(n);
            }
        }
        self.fault(start, field, "a number is longer than 64 bits")
    }

    fn tag(&mut self, highest: u64) -> Result<(u32, Wire), Fault> {
        let start = self.at;
        let tag = self.varint(None)?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number @ 1..) if tag >> 3 <= highest => number,
            _ => return self.fault(start, None, "no such field number"),
        };
        let wire = match tag & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            3 => Wire::Group,
            4 => Wire::EndGroup,
            5 => Wire::Fixed32,
            _ => return self.fault(start, Some(number), "no such wire type"),
        };
        Ok((number, wire))
    }

    fn take(&mut self, n: u64, field: u32) -> Result<&'a [u8], Fault> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) {
            Some((end, taken)) => {
                self.at = end;
                Ok(taken)
            }
            None => self.fault(self.at, Some(field), "the message is cut short"),
        }
    }

    fn bytes(&mut self, field: u32) -> Result<&'a [u8], Fault> {
        let len = self.varint(Some(field))?;
        self.take(len, field)
    }

    fn text(&mut self, field: u32) -> Result<&'a str, Fault> {
        let bytes = self.bytes(field)?;
        match utf8(bytes) {
            Some(text) => Ok(text),
            None => {
                let valid = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
                self.fault(self.at - bytes.len() + valid, Some(field), "text is not UTF-8")
            }
        }
    }

    /// Reads a value; false where the bytes hold more than it can.
    fn value(&mut self, number: u32, kind: Kind, value: &mut Value<'a>) -> Result<bool, Fault> {
        match kind {
            Kind::String => *value = Value::Text(self.text(number)?),
            Kind::Bytes => *value = Value::Bytes(self.bytes(number)?),
            Kind::Int64 => *value = Value::Int(self.varint(Some(number))? as i64),
            // What is wider is cut to its low 32 bits.
            Kind::Int32 => *value = Value::Int(i64::from(self.varint(Some(number))? as i32)),
            Kind::StringMap => {
                let (entry, whole) = self.map_entry(number)?;
                if let Value::Map(entries) = value {
                    entries.push(entry);
                }
                return Ok(whole);
            }
        }
        Ok(true)
    }

    /// Key and value of an entry, and whether these are all it has.
    fn map_entry(&mut self, number: u32) -> Result<((&'a str, &'a str), bool), Fault> {
        let body = self.bytes(number)?;
        let (end, mut inner) = (self.at, Reader { bytes: self.bytes.get(..self.at).unwrap_or_default(), at: 0 });
        inner.at = end - body.len();
        let (mut key, mut item, mut whole) = ("", "", true);
        while inner.at < end {
            match inner.tag(MAX_NUMBER)? {
                (1, Wire::Bytes) => key = inner.text(number)?,
                (2, Wire::Bytes) => item = inner.text(number)?,
                (other, wire) => {
                    inner.skip(other, wire)?;
                    whole = false;
                }
            }
        }
        Ok(((key, item), whole))
    }

    fn skip(&mut self, number: u32, wire: Wire) -> Result<(), Fault> {
        match wire {
            Wire::Varint => self.varint(Some(number)).map(drop),
            Wire::Fixed64 => self.take(8, number).map(drop),
            Wire::Fixed32 => self.take(4, number).map(drop),
            Wire::Bytes => self.bytes(number).map(drop),
            Wire::EndGroup => self.fault(self.at, Some(number), "a group ends that never began"),
            Wire::Group => self.skip_group(number),
        }
    }

    fn skip_group(&mut self, number: u32) -> Result<(), Fault> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let start = self.at;
            if start >= self.bytes.len() {
                return self.fault(start, Some(innermost), "the message is cut short");
            }
            match self.tag(MAX_IN_GROUP)? {
                (n, Wire::EndGroup) if n == innermost => {
                    open.pop();
                }
                (n, Wire::EndGroup) => return self.fault(start, Some(n), "a group ends that never began"),
                (n, Wire::Group) if open.len() < MAX_DEPTH => open.push(n),
                (n, Wire::Group) => return self.fault(start, Some(n), "groups stand too deep in groups"),
                (n, wire) => self.skip(n, wire)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [(u32, Kind); 5] =
        [(1, Kind::String), (2, Kind::Bytes), (3, Kind::Int32), (4, Kind::Int64), (15, Kind::StringMap)];

    fn fault(message: &[u8]) -> String {
        decode(message, &FIELDS).unwrap_err().to_string()
    }

    /// Absent fields are zero; of a scalar that comes twice the last counts; int32 takes the low half of its varint.
    #[test]
    fn values() {
        let (values, unknown) = decode(b"", &FIELDS).unwrap();
        let zero = [Value::Text(""), Value::Bytes(b""), Value::Int(0), Value::Int(0), Value::Map(vec![])];
        assert_eq!(values, zero);
        assert_eq!(unknown, Unknown::default());

        let mut message = b"\x0a\x01a\x0a\x02bc\x12\x02\xff\x00".to_vec();
        message.extend(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
        message.extend(b"\x7a\x06\x0a\x01k\x12\x01v\x7a\x03\x0a\x01e\x7a\x06\x12\x01w\x0a\x01k");
        let (values, _) = decode(&message, &FIELDS).unwrap();
        let map = Value::Map(vec![("k", "w"), ("e", "")]);
        assert_eq!(values, [Value::Text("bc"), Value::Bytes(b"\xff\0"), Value::Int(-1), Value::Int(i64::MIN), map]);
    }

    /// What the schema lacks is kept byte for byte and named, a known number with another wire type included.
    #[test]
    fn unknown_fields() {
        let message =
            b"\x98\x06\x07\x0a\x01x\x9b\x06\x0b\x0c\x9c\x06\x09\x01\x02\x03\x04\x05\x06\x07\x08\x08\x05\x1d\0\0\0\0";
        let (values, unknown) = decode(message, &FIELDS).unwrap();
        assert_eq!(values.first(), Some(&Value::Text("x")));
        assert_eq!(
            unknown.names().collect::<Vec<_>>(),
            ["99:varint", "99:group", "1:fixed64", "1:varint", "3:fixed32"]
        );
        let mut raw = message.to_vec();
        raw.drain(3..6);
        assert_eq!(unknown.raw, raw);

        let many: Vec<u8> = (20..400u32).flat_map(|n| [(n << 3 & 0x7f | 0x80) as u8, (n >> 4) as u8, 0]).collect();
        let (_, unknown) = decode(&many, &FIELDS).unwrap();
        assert_eq!((unknown.names().count(), unknown.names().last().as_deref()), (NAMED + 1, Some("…")));
        assert_eq!(unknown.raw, many);
    }

    /// What Go's own decoder (google.golang.org/protobuf 1.36) was seen to pass over: numbers that no field can have, inside
    /// a group; groups ten thousand deep. What a map's entry holds besides key and value, Go drops; here it is kept.
    #[test]
    fn as_lenient_as_go() {
        for inside_group in [&b"\x33\x80\x80\x80\x80\x10\x01\x34"[..], b"\x33\xf8\xff\xff\xff\x3f\x01\x34"] {
            let (_, unknown) = decode(inside_group, &FIELDS).unwrap();
            assert_eq!(unknown.raw, inside_group);
        }
        let deep = [b"\x9b\x06".repeat(10_001), b"\x9c\x06".repeat(10_001)].concat();
        assert_eq!(decode(&deep, &FIELDS).unwrap().1.raw, deep);

        let (values, unknown) = decode(b"\x7a\x08\x0a\x01k\x12\x01v\x18\x05", &FIELDS).unwrap();
        assert_eq!(values.last(), Some(&Value::Map(vec![("k", "v")])));
        assert_eq!(unknown.names().collect::<Vec<_>>(), ["15:bytes"]);
        assert_eq!(unknown.raw, b"\x7a\x08\x0a\x01k\x12\x01v\x18\x05");
    }

    /// Faults say what and where.
    #[test]
    fn faults() {
        assert_eq!(fault(b"\x0a\x05abc"), "the message is cut short in field 1 at byte 2");
        assert_eq!(fault(b"\x18\x80"), "the message is cut short in field 3 at byte 2");
        assert_eq!(fault(b"\x18"), "the message is cut short in field 3 at byte 1");
        assert_eq!(fault(b"\x0a\x03ab\xff"), "text is not UTF-8 in field 1 at byte 4");
        assert_eq!(fault(b"\x07"), "no such field number at byte 0");
        assert_eq!(fault(b"\x0a\x00\x0e"), "no such wire type in field 1 at byte 2");
        assert_eq!(
            fault(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
            "a number is longer than 64 bits in field 3 at byte 1"
        );
        assert_eq!(fault(b"\x0c"), "a group ends that never began in field 1 at byte 1");
        assert_eq!(fault(b"\x9b\x06\x08\x01"), "the message is cut short in field 99 at byte 4");
        assert_eq!(fault(b"\x7a\x03\x0a\x05k"), "the message is cut short in field 15 at byte 4");
        assert_eq!(fault(&b"\x9b\x06".repeat(10_002)), "groups stand too deep in groups in field 99 at byte 20002");
        assert_eq!(fault(b"\x80\x80\x80\x80\x10\x00"), "no such field number at byte 0");
    }
}
