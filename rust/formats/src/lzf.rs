//! LZF, the compression of strings in RDB files.

/// The longest match is 264 bytes and takes three: no input can grow by more.
pub(crate) const MAX_RATIO: u64 = 88;

const OVERRUN: &str = "compressed data that yields more than it claims";
const CUT: &str = "compressed data that ends in the middle of an instruction";

/// Expands `packed` into all of `out`, exactly.
pub(crate) fn expand(packed: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
    let (used, filled) = run(packed, out, false)?;
    if filled != out.len() {
        return Err("compressed data that yields less than it claims");
    }
    if used != packed.len() {
        return Err(OVERRUN);
    }
    Ok(())
}

/// Expands as much of the start of `packed` as fits into `out`; the number of bytes written.
pub(crate) fn expand_start(packed: &[u8], out: &mut [u8]) -> usize {
    run(packed, out, true).map_or(0, |(_, filled)| filled)
}

/// Copies of up to this size are done as one copy of exactly this size, where there is room for it.
const CHUNK: usize = 32;

/// Bytes used of `packed` and written to `out`. With `clip`, stops quietly where either ends.
#[inline]
fn run(packed: &[u8], out: &mut [u8], clip: bool) -> Result<(usize, usize), &'static str> {
    let mut i = 0;
    let mut o = 0;
    while let Some(&control) = packed.get(i) {
        if clip && o == out.len() {
            break;
        }
        i += 1;
        if control < 32 {
            let mut n = usize::from(control) + 1;
            if clip {
                n = n.min(out.len() - o).min(packed.len() - i);
            }
            let from = packed.get(i..).unwrap_or_default();
            let to = out.get_mut(o..).unwrap_or_default();
            match (from.first_chunk::<CHUNK>(), to.first_chunk_mut::<CHUNK>()) {
                (Some(from), Some(to)) => *to = *from,
                _ => match (from.get(..n), to.get_mut(..n)) {
                    (Some(from), Some(to)) => to.copy_from_slice(from),
                    (None, _) => return Err(CUT),
                    (_, None) => return Err(OVERRUN),
                },
            }
            i += n;
            o += n;
            if clip && n <= usize::from(control) {
                break;
            }
            continue;
        }
        let mut n = usize::from(control >> 5);
        if n == 7 {
            match packed.get(i) {
                Some(&more) => n += usize::from(more),
                None if clip => break,
                None => return Err(CUT),
            }
            i += 1;
        }
        n += 2;
        let distance = match packed.get(i) {
            Some(&low) => (usize::from(control & 31) << 8 | usize::from(low)) + 1,
            None if clip => break,
            None => return Err(CUT),
        };
        i += 1;
        let Some(from) = o.checked_sub(distance) else {
            return Err("compressed data that refers to before its start");
        };
        if n > out.len() - o {
            if !clip {
                return Err(OVERRUN);
            }
            n = out.len() - o;
        }
        repeat(out, from, o, n);
        o += n;
    }
    Ok((i, o))
}

/// Writes at `o` the `n` bytes that start at `from`, which may run into those being written.
#[inline]
fn repeat(out: &mut [u8], from: usize, o: usize, n: usize) {
    let distance = o - from;
    if distance >= CHUNK && n <= CHUNK {
        let (before, after) = out.split_at_mut(o);
        let source = before.get(from..).and_then(|s| s.first_chunk::<CHUNK>());
        if let (Some(source), Some(target)) = (source, after.first_chunk_mut::<CHUNK>()) {
            *target = *source;
            return;
        }
    }
    if distance >= n {
        out.copy_within(from..from + n, o);
        return;
    }
    // The bytes repeat with the distance as period: each copy doubles what is there.
    let mut done = 0;
    while done < n {
        let step = (distance + done).min(n - done);
        out.copy_within(from..from + step, o + done);
        done += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's compressed form of 70 × "x" gives those 70 bytes back.
    #[test]
    fn vector_of_a_server() {
        let packed = [0x01, b'x', b'x', 0xe0, 0x39, 0x00, 0x01, b'x', b'x'];
        let mut out = [0; 70];
        assert_eq!(expand(&packed, &mut out), Ok(()));
        assert_eq!(out, [b'x'; 70]);
    }

    /// A match that overlaps its own output repeats with the distance as period.
    #[test]
    fn overlap_repeats() {
        let packed = [0x02, b'a', b'b', b'c', 0xa0, 0x02];
        let mut out = [0; 10];
        assert_eq!(expand(&packed, &mut out), Ok(()));
        assert_eq!(&out, b"abcabcabca");
    }

    /// Wrong sizes, a cut stream and a distance before the start are errors, never a panic.
    #[test]
    fn faults() {
        let packed = [0x01, b'x', b'x', 0xe0, 0x39, 0x00, 0x01, b'x', b'x'];
        for size in [0, 1, 69, 71, 200] {
            assert!(expand(&packed, &mut vec![0; size]).is_err(), "size {size}");
        }
        for cut in 0..packed.len() {
            assert!(expand(&packed[..cut], &mut [0; 70]).is_err(), "cut {cut}");
        }
        assert!(expand(&[0x00, b'a', 0x20, 0x05], &mut [0; 4]).is_err());
    }

    /// The start of a stream can be had without the rest, as far as the packed bytes reach.
    #[test]
    fn start_only() {
        let packed = [0x01, b'x', b'y', 0xe0, 0x39, 0x01, 0x01, b'x', b'x'];
        let mut out = [0; 6];
        assert_eq!(expand_start(&packed, &mut out), 6);
        assert_eq!(&out, b"xyxyxy");
        assert_eq!(expand_start(&packed[..2], &mut out), 1);
        assert_eq!(expand_start(&packed[..3], &mut out), 2);
    }
}
