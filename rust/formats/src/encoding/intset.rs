//! Intset: `u32le width | u32le count | count × signed integer`, ascending.

use super::{fixed, spot};
use crate::parse::Spot;

pub(crate) const HEADER: usize = 8;

/// The members, handed to `f` in order. `f`'s own errors pass through in the outer result.
pub(crate) fn each<E>(bytes: &[u8], mut f: impl FnMut(i64) -> Result<(), E>) -> Result<Result<(), E>, Spot> {
    let width = u32::from_le_bytes(fixed(bytes, 0)?);
    let count = u64::from(u32::from_le_bytes(fixed(bytes, 4)?));
    if !matches!(width, 2 | 4 | 8) {
        return spot(0, "an intset of unknown width");
    }
    if HEADER as u64 + count * u64::from(width) != bytes.len() as u64 {
        return spot(4, "an intset whose count does not agree with its size");
    }
    let mut before = None;
    for (i, member) in bytes.get(HEADER..).unwrap_or_default().chunks_exact(width as usize).enumerate() {
        let n = match (member.first_chunk(), member.first_chunk(), member.first_chunk()) {
            (_, _, Some(&eight)) => i64::from_le_bytes(eight),
            (_, Some(&four), _) => i64::from(i32::from_le_bytes(four)),
            (Some(&two), _, _) => i64::from(i16::from_le_bytes(two)),
            _ => break,
        };
        if before.is_some_and(|before| before >= n) {
            return spot(HEADER + i * width as usize, "an intset out of order");
        }
        before = Some(n);
        if let Err(error) = f(n) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(bytes: &[u8]) -> Option<Vec<i64>> {
        let mut out = Vec::new();
        let push = |n| {
            out.push(n);
            Ok::<(), ()>(())
        };
        each(bytes, push).ok()?.ok()?;
        Some(out)
    }

    /// The three widths, with negative numbers, give the numbers they encode.
    #[test]
    fn widths() {
        assert_eq!(members(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 5, 0]), Some(vec![-1, 5]));
        assert_eq!(members(&[4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80]), Some(vec![i64::from(i32::MIN)]));
        assert_eq!(
            members(&[8, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            Some(vec![i64::MAX])
        );
    }

    /// Wrong width, wrong size, wrong order and cuts are damage.
    #[test]
    fn damage() {
        assert_eq!(members(&[3, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(members(&[2, 0, 0, 0, 2, 0, 0, 0, 1, 0]), None);
        assert_eq!(members(&[2, 0, 0, 0, 2, 0, 0, 0, 5, 0, 5, 0]), None);
        assert_eq!(members(&[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(members(&[2, 0, 0]), None);
    }
}
