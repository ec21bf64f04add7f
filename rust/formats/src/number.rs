//! Doubles as text.

/// As C prints them with `%.17g`, which is how Redis prints scores.
pub(crate) fn g17(n: f64) -> String {
    if n.is_nan() {
        return "nan".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "inf" } else { "-inf" }.into();
    }
    if n == n.trunc() && n.abs() < 1e15 && (n != 0.0 || n.is_sign_positive()) {
        return itoa::Buffer::new().format(n as i64).to_string();
    }
    let scientific = format!("{n:.16e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let cut = |digits: String| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits,
    };
    if (-4..17).contains(&exponent) {
        return cut(format!("{n:.*}", (16 - exponent).max(0) as usize));
    }
    with_exponent(&cut(mantissa.to_string()), exponent)
}

/// As an array of Redis 8.8 gives a double back: the fewest digits that read back as the same number, with a point.
/// Text of any other form is stored as text, so that exponents never come up.
pub(crate) fn pointed(n: f64) -> String {
    if !n.is_finite() {
        return g17(n);
    }
    let text = n.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What printf of the C library gives with %.17g.
    #[test]
    fn as_c_prints() {
        for (n, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e308, "1e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1_700_000_000_123.5, "1700000000123.5"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(g17(n), text);
        }
    }

    /// Array items as a Redis 8.10 server gave them back for these doubles.
    #[test]
    fn as_arrays_print() {
        let pi = std::f64::consts::PI;
        for (n, text) in [(1.0, "1.0"), (0.5, "0.5"), (pi, "3.141592653589793"), (-0.25, "-0.25")] {
            assert_eq!(pointed(n), text);
        }
    }
}
