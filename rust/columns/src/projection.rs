//! What a caller asks to have read from the fields of a hash or a stream entry.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use hashbrown::HashMap;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::protobuf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    field: String,
    kind: AskedKind,
    path: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    size: bool,
    #[serde(default)]
    format: bool,
    #[serde(default)]
    message: Vec<AskedField>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum AskedKind {
    Text,
    Bytes,
    Int,
    Ms,
    JsonText,
    JsonInt,
    Present,
    Message,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedField {
    number: u32,
    name: String,
    kind: protobuf::Kind,
    limit: Option<u64>,
    #[serde(default)]
    size: bool,
    #[serde(default)]
    format: bool,
}

/// A column of bytes, with what may be told of them before they are cut.
#[derive(Clone, Debug)]
pub(crate) struct BytesSpec {
    pub limit: usize,
    pub size: bool,
    pub format: bool,
}

impl BytesSpec {
    fn new(limit: Option<u64>, size: bool, format: bool) -> Self {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        BytesSpec { limit, size, format }
    }

    fn fields(&self, name: &str, out: &mut Vec<Field>) {
        out.push(Field::new(name, DataType::Binary, true));
        if self.size {
            out.push(Field::new(format!("{name}_size"), DataType::Int64, true));
        }
        if self.format {
            out.push(Field::new(format!("{name}_format"), DataType::Utf8, true));
        }
    }
}

/// A field of a message; `bytes` says more of one that is bytes.
#[derive(Clone, Debug)]
pub(crate) struct MessageField {
    pub kind: protobuf::Kind,
    pub bytes: BytesSpec,
}

#[derive(Clone, Debug)]
pub(crate) struct MessageSpec {
    pub fields: Vec<MessageField>,
    /// Number and kind of each field, as the decoder wants them.
    pub wire: Vec<(u32, protobuf::Kind)>,
}

/// How a column is read.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Text,
    Bytes(BytesSpec),
    Int,
    Ms,
    /// The member of the slot's `members` with this position.
    JsonText(usize),
    JsonInt(usize),
    Present,
    Message(Arc<MessageSpec>),
}

/// One stored field that columns are read from.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Positions in [`Projection::columns`].
    pub columns: Vec<usize>,
    /// JSON members that columns ask for.
    pub members: Vec<Box<[u8]>>,
    /// Its name.
    pub name: Box<[u8]>,
    /// Of JSON members only numbers are asked for.
    pub numbers_only: bool,
    /// How many bytes of a value columns keep, one number for each that keeps any.
    keeps: Vec<usize>,
}

impl Slot {
    /// Bytes that the columns keep of a value of `len` bytes, together.
    #[inline]
    pub fn kept(&self, len: usize) -> usize {
        self.keeps.iter().fold(0, |sum, &most| sum.saturating_add(len.min(most)))
    }
}

/// A parsed projection.
#[derive(Debug)]
pub struct Projection {
    pub(crate) columns: Vec<Spec>,
    pub(crate) slots: Vec<Slot>,
    by_field: HashMap<Box<[u8]>, usize>,
    fields: Vec<Field>,
    /// Whether what no column takes is kept.
    pub(crate) rest: bool,
}

impl Projection {
    /// Reads the JSON that `jobsleuth.keyspace.projection.projection_json` writes. `rest`: what no column takes whole
    /// goes to a last column, instead of being left out.
    pub fn parse(json: &str, rest: bool) -> Result<Self> {
        let bad = |what: String| Error::Request(format!("projection: {what}"));
        let asked: Vec<Asked> = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
        let mut projection =
            Projection { columns: Vec::new(), slots: Vec::new(), by_field: HashMap::new(), fields: Vec::new(), rest };
        for column in asked {
            projection.add(column).map_err(bad)?;
        }
        let mut names: Vec<&str> = projection.fields.iter().map(|field| field.name().as_str()).collect();
        names.extend(["row", "rest"]);
        names.sort_unstable();
        if let Some((twice, _)) = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(bad(format!("two columns would be named {twice}")));
        }
        Ok(projection)
    }

    fn add(&mut self, asked: Asked) -> std::result::Result<(), String> {
        let Asked { name, field, kind, path, limit, size, format, message } = asked;
        let is_json = matches!(kind, AskedKind::JsonText | AskedKind::JsonInt);
        if is_json != path.is_some() {
            return Err(format!("{name}: a path belongs to JSON columns and to no others"));
        }
        if kind != AskedKind::Bytes && (limit.is_some() || size || format) {
            return Err(format!("{name}: limit, size and format are for bytes"));
        }
        if (kind == AskedKind::Message) == message.is_empty() {
            return Err(format!("{name}: fields belong to messages and to nothing else"));
        }
        let field: Box<[u8]> = field.into_bytes().into();
        let at = *self.by_field.entry(field.clone()).or_insert_with(|| {
            self.slots.push(Slot { name: field, numbers_only: true, ..Slot::default() });
            self.slots.len() - 1
        });
        let Some(slot) = self.slots.get_mut(at) else { return Err(format!("{name}: lost")) };
        slot.columns.push(self.columns.len());
        slot.numbers_only &= kind != AskedKind::JsonText;
        match kind {
            AskedKind::Text | AskedKind::JsonText | AskedKind::Message => slot.keeps.push(usize::MAX),
            AskedKind::Bytes => slot.keeps.push(limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))),
            AskedKind::Int | AskedKind::Ms | AskedKind::JsonInt | AskedKind::Present => {}
        }
        let mut member = || {
            let wanted = path.clone().unwrap_or_default().into_bytes().into_boxed_slice();
            slot.members.iter().position(|known| *known == wanted).unwrap_or_else(|| {
                slot.members.push(wanted);
                slot.members.len() - 1
            })
        };
        let mut plain = |data_type| self.fields.push(Field::new(name.as_str(), data_type, true));
        self.columns.push(match kind {
            AskedKind::Text => {
                plain(DataType::Utf8);
                Spec::Text
            }
            AskedKind::Int => {
                plain(DataType::Int64);
                Spec::Int
            }
            AskedKind::Ms => {
                plain(DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())));
                Spec::Ms
            }
            AskedKind::JsonText => {
                plain(DataType::Utf8);
                Spec::JsonText(member())
            }
            AskedKind::JsonInt => {
                plain(DataType::Int64);
                Spec::JsonInt(member())
            }
            AskedKind::Present => {
                plain(DataType::Boolean);
                Spec::Present
            }
            AskedKind::Bytes => {
                let spec = BytesSpec::new(limit, size, format);
                spec.fields(&name, &mut self.fields);
                Spec::Bytes(spec)
            }
            AskedKind::Message => Spec::Message(Arc::new(message_spec(&name, message, &mut self.fields)?)),
        });
        Ok(())
    }

    /// The slot of a stored field.
    #[inline]
    pub(crate) fn slot_of(&self, field: &[u8]) -> Option<usize> {
        self.by_field.get(field).copied()
    }

    /// The columns, without `row` and `rest`.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

fn message_spec(name: &str, asked: Vec<AskedField>, out: &mut Vec<Field>) -> std::result::Result<MessageSpec, String> {
    let mut spec = MessageSpec { fields: Vec::new(), wire: Vec::new() };
    for AskedField { number, name: field, kind, limit, size, format } in asked {
        let column = format!("{name}.{field}");
        if kind != protobuf::Kind::Bytes && (limit.is_some() || size || format) {
            return Err(format!("{column}: limit, size and format are for bytes"));
        }
        if spec.wire.iter().any(|&(known, _)| known == number) {
            return Err(format!("{column}: field number {number} comes twice"));
        }
        let bytes = BytesSpec::new(limit, size, format);
        match kind {
            protobuf::Kind::String => out.push(Field::new(column, DataType::Utf8, true)),
            protobuf::Kind::Bytes => bytes.fields(&column, out),
            protobuf::Kind::Int32 => out.push(Field::new(column, DataType::Int32, true)),
            protobuf::Kind::Int64 => out.push(Field::new(column, DataType::Int64, true)),
            protobuf::Kind::StringMap => out.push(Field::new(column, map_type(DataType::Utf8), true)),
        }
        spec.wire.push((number, kind));
        spec.fields.push(MessageField { kind, bytes });
    }
    out.push(Field::new(format!("{name}.error"), DataType::Utf8, true));
    out.push(Field::new(format!("{name}.unknown"), DataType::Binary, true));
    out.push(Field::new(format!("{name}.unknown_fields"), DataType::List(list_item()), true));
    out.push(Field::new(format!("{name}.raw"), DataType::Binary, true));
    out.push(Field::new(format!("{name}_size"), DataType::Int64, true));
    Ok(spec)
}

/// Element of a list of strings.
pub(crate) fn list_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Utf8, true))
}

/// A map from strings, with the names that pyarrow gives to its parts.
pub(crate) fn map_type(values: DataType) -> DataType {
    let entry =
        DataType::Struct(vec![Field::new("key", DataType::Utf8, false), Field::new("value", values, true)].into());
    DataType::Map(Arc::new(Field::new("entries", entry, false)), false)
}
