//! The safetensors format: a JSON header with sorted names, then the arrays one after the other.

use crate::failed;
use oxmlx_core::Array;
use oxmlx_types::{Dtype, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

fn name(d: Dtype) -> Option<&'static str> {
    Some(match d {
        Dtype::Bool => "BOOL",
        Dtype::Uint8 => "U8",
        Dtype::Uint16 => "U16",
        Dtype::Uint32 => "U32",
        Dtype::Uint64 => "U64",
        Dtype::Int8 => "I8",
        Dtype::Int16 => "I16",
        Dtype::Int32 => "I32",
        Dtype::Int64 => "I64",
        Dtype::Float16 => "F16",
        Dtype::Bfloat16 => "BF16",
        Dtype::Float32 => "F32",
        Dtype::Complex64 => "C64",
        Dtype::Float64 => return None,
    })
}

fn json(text: &str) -> String {
    serde_json::Value::String(text.into()).to_string()
}

/// The file's bytes. Evaluates the arrays. float64 has no place in MLX's files and is refused.
pub fn to_bytes(
    arrays: &BTreeMap<String, Array>,
    metadata: Option<&BTreeMap<String, String>>,
) -> Result<Vec<u8>> {
    let mut header = String::from("{\"__metadata__\":");
    match metadata {
        Some(m) => {
            let items: Vec<String> = m.iter().map(|(k, v)| format!("{}:{}", json(k), json(v))).collect();
            let _ = write!(header, "{{{}}}", items.join(","));
        }
        None => header.push_str("null"),
    }
    let mut at = 0;
    for (key, a) in arrays {
        let dtype = name(a.dtype()).ok_or_else(|| {
            Error::new(
                ErrorKind::Backend,
                "save_safetensors",
                format!("{key}: {} can't be saved.", a.dtype()),
            )
        })?;
        let shape: Vec<String> = a.shape().iter().map(usize::to_string).collect();
        let end = at + a.nbytes();
        let _ = write!(
            header,
            ",{}:{{\"data_offsets\":[{at},{end}],\"dtype\":\"{dtype}\",\"shape\":[{}]}}",
            json(key),
            shape.join(",")
        );
        at = end;
    }
    header.push('}');
    let mut out = Vec::with_capacity(8 + header.len() + at);
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    for a in arrays.values() {
        out.extend_from_slice(&a.to_bytes()?);
    }
    Ok(out)
}

/// Arrays by name, and the metadata.
type Contents = (Vec<(String, Array)>, BTreeMap<String, String>);

/// The arrays and metadata in a file's bytes.
pub fn from_bytes(bytes: &[u8]) -> Result<Contents> {
    let bad = |m: String| failed("load_safetensors", format!("Invalid file: {m}"));
    let length = bytes.get(..8).ok_or_else(|| bad("no header length".into()))?;
    let length = length.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64) as usize;
    let header = bytes
        .get(8..8usize.saturating_add(length))
        .ok_or_else(|| bad(format!("a header of {length} bytes in a file of {}", bytes.len())))?;
    let data = &bytes[8 + length..];
    let json: serde_json::Value = serde_json::from_slice(header).map_err(|e| bad(e.to_string()))?;
    let map = json.as_object().ok_or_else(|| bad("the header is no object".into()))?;
    let mut arrays = Vec::with_capacity(map.len());
    let mut metadata = BTreeMap::new();
    for (key, entry) in map {
        if key == "__metadata__" {
            let items = entry.as_object().into_iter().flatten();
            metadata.extend(items.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))));
            continue;
        }
        let numbers = |what: &str| -> Result<Vec<usize>> {
            let list = entry
                .get(what)
                .and_then(|v| v.as_array())
                .ok_or_else(|| bad(format!("{key} without {what}")))?;
            list.iter()
                .map(|n| n.as_u64().map(|n| n as usize).ok_or_else(|| bad(format!("{key}: {what}"))))
                .collect()
        };
        let kind = entry.get("dtype").and_then(|v| v.as_str()).unwrap_or("");
        let (dtype, from) =
            dtype_of(kind).ok_or_else(|| bad(format!("{key} has the unknown type {kind:?}")))?;
        let (offsets, shape) = (numbers("data_offsets")?, numbers("shape")?);
        let slice = match offsets.as_slice() {
            [begin, end] => data.get(*begin..*end),
            _ => None,
        };
        let slice = slice.ok_or_else(|| bad(format!("{key} lies outside the file")))?;
        let array =
            Array::from_bytes(slice, &shape, dtype).map_err(|e| bad(format!("{key}: {}", e.message)))?;
        let array = if from == dtype { array } else { oxmlx_core::ops::astype(&array, from)? };
        arrays.push((key.clone(), array));
    }
    Ok((arrays, metadata))
}

/// Stored type and the type that is handed out: float64 is read as float32.
fn dtype_of(kind: &str) -> Option<(Dtype, Dtype)> {
    if kind == "F64" {
        return Some((Dtype::Float64, Dtype::Float32));
    }
    let d = Dtype::ALL.into_iter().find(|&d| name(d) == Some(kind))?;
    Some((d, d))
}

#[cfg(test)]
mod tests {
    use super::from_bytes;

    #[test]
    fn lies_about_sizes_are_refused() {
        assert!(from_bytes(&[]).is_err());
        assert!(from_bytes(&u64::MAX.to_le_bytes()).is_err());
        let header = br#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header);
        assert!(from_bytes(&file).is_err());
    }
}
