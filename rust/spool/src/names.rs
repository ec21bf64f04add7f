//! Words of the export formats.

use jobsleuth_formats::{Encoding, Kind, ModuleId};

/// The kind that TYPE calls so.
pub fn kind_named(name: &[u8]) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.as_str().as_bytes() == name)
}

/// The encoding of that name.
pub fn encoding_named(name: &[u8]) -> Option<Encoding> {
    Encoding::ALL.into_iter().find(|encoding| encoding.as_str().as_bytes() == name)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The module type of that name (nine characters), with encoding version 0.
pub fn module_named(name: &[u8]) -> Option<ModuleId> {
    if name.len() != 9 {
        return None;
    }
    let bits = name.iter().try_fold(0_u64, |id, byte| {
        let digit = ALPHABET.iter().position(|known| known == byte)?;
        Some(id << 6 | digit as u64)
    });
    bits.map(|bits| ModuleId(bits << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name survives the way to an id and back.
    #[test]
    fn module_names_come_back() {
        for name in ["ReJSON-RL", "MBbloom--", "test_type"] {
            assert_eq!(module_named(name.as_bytes()).unwrap().name(), name);
        }
        assert_eq!(module_named(b"short"), None);
        assert_eq!(module_named(b"with spc!"), None);
    }
}
