//! One array in numpy's format (NEP 1, versions 1 to 3). bfloat16 is stored as `<V2`, as MLX does.

use crate::failed;
use oxmlx_core::{Array, ops};
use oxmlx_types::{Dtype, Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

fn descr(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "|b1",
        Dtype::Uint8 => "|u1",
        Dtype::Uint16 => "<u2",
        Dtype::Uint32 => "<u4",
        Dtype::Uint64 => "<u8",
        Dtype::Int8 => "|i1",
        Dtype::Int16 => "<i2",
        Dtype::Int32 => "<i4",
        Dtype::Int64 => "<i8",
        Dtype::Float16 => "<f2",
        Dtype::Bfloat16 => "<V2",
        Dtype::Float32 => "<f4",
        Dtype::Float64 => "<f8",
        Dtype::Complex64 => "<c8",
    }
}

/// The file's bytes. Evaluates the array.
pub fn to_bytes(a: &Array) -> Result<Vec<u8>> {
    let dims: String = a.shape().iter().map(|n| format!("{n}, ")).collect();
    let fortran = if a.ndim() < 2 { "True" } else { "False" };
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': {fortran}, 'shape': ({})}}",
        descr(a.dtype()),
        dims.trim_end()
    );
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut out = Vec::with_capacity(unpadded + 64 + a.nbytes());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&a.to_bytes()?);
    Ok(out)
}

struct Header {
    dtype: Dtype,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
}

fn value<'a>(header: &'a str, key: &str) -> Result<&'a str> {
    let at = header
        .find(&format!("'{key}'"))
        .ok_or_else(|| failed("load", format!("npy header without {key}")))?;
    let rest = &header[at + key.len() + 2..];
    Ok(rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start())
}

fn parse(header: &str) -> Result<Header> {
    let text = value(header, "descr")?;
    let text = text.trim_start_matches('\'').split('\'').next().unwrap_or("");
    let plain = if let Some(t) = text.strip_prefix('>') { format!("<{t}") } else { text.to_string() };
    let plain = match plain.as_str() {
        "<b1" | "<u1" | "<i1" => plain.replace('<', "|"),
        "|V2" => "<V2".into(),
        _ => plain,
    };
    let dtype = Dtype::ALL.into_iter().find(|&d| descr(d) == plain).ok_or_else(|| {
        Error::invalid("from_str", format!("Unsupported array protocol type-string: {text}"))
    })?;
    let shape = value(header, "shape")?;
    let inner = shape
        .strip_prefix('(')
        .and_then(|s| s.split(')').next())
        .ok_or_else(|| failed("load", "npy header without a shape"))?;
    let shape = inner
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| s.parse().map_err(|_| failed("load", format!("npy header with the length {s:?}"))))
        .collect::<Result<_>>()?;
    Ok(Header {
        dtype,
        big_endian: text.starts_with('>'),
        fortran: value(header, "fortran_order")?.starts_with("True"),
        shape,
    })
}

/// The array in a file's bytes.
pub fn from_bytes(bytes: &[u8]) -> Result<Array> {
    let truncated = || failed("load", "The npy file is truncated.");
    if !bytes.starts_with(MAGIC) {
        return Err(failed("load", "Invalid header: not a npy file."));
    }
    let version = *bytes.get(6).ok_or_else(truncated)?;
    let (length, begin) = if version == 1 {
        let b = bytes.get(8..10).ok_or_else(truncated)?;
        (u16::from_le_bytes([b[0], b[1]]) as usize, 10)
    } else {
        let b = bytes.get(8..12).ok_or_else(truncated)?;
        (u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize, 12)
    };
    let header = bytes.get(begin..begin + length).ok_or_else(truncated)?;
    let h = parse(&String::from_utf8_lossy(header))?;
    let size = h.shape.iter().try_fold(h.dtype.size(), |n, &d| n.checked_mul(d)).ok_or_else(truncated)?;
    let data = bytes.get(begin + length..).and_then(|d| d.get(..size)).ok_or_else(truncated)?;
    let swapped;
    let data = if h.big_endian && h.dtype.size() > 1 {
        let part = if h.dtype == Dtype::Complex64 { 4 } else { h.dtype.size() };
        swapped = data.chunks(part).flat_map(|c| c.iter().rev().copied()).collect::<Vec<u8>>();
        &swapped[..]
    } else {
        data
    };
    if !h.fortran || h.shape.len() < 2 {
        return Array::from_bytes(data, &h.shape, h.dtype);
    }
    let reversed: Vec<usize> = h.shape.iter().rev().copied().collect();
    ops::transpose(&Array::from_bytes(data, &reversed, h.dtype)?, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let h = parse("{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, )}").unwrap();
        assert!(h.big_endian && h.fortran && h.shape == [2, 3] && h.dtype == Dtype::Float64);
        assert!(parse("{'descr': '<U1', 'fortran_order': False, 'shape': ()}").is_err());
        assert!(from_bytes(b"\x93NUMPY\x01\x00\xff\xff").is_err());
    }
}
