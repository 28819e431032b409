//! Random words: Threefry-2x32, as on the CPU.

use crate::record::{Encoding, Operand, Word};
use crate::walk::{THREADS, Walk, grid};
use oxmlx_types::{Dtype, Error, ErrorKind, Result};

/// Random words (or bytes of words) for each key of `keys: [K.., 2]`; the output is `[K.., S..]`.
pub(crate) fn random_bits(
    keys: &Operand<'_>,
    key_ndim: u8,
    out: &Operand<'_>,
    e: &mut Encoding,
) -> Result<()> {
    if keys.dtype != Dtype::Uint32 {
        let text = format!("Expected key type uint32 but received {}.", keys.dtype);
        return Err(Error::new(ErrorKind::Type, "bits", text));
    }
    if out.size() == 0 {
        return Ok(());
    }
    let rank = key_ndim as usize;
    let walk = Walk::new(&keys.shape()[..rank], [&keys.strides()[..rank]]);
    let bytes = out.size() / walk.size() * out.dtype.size();
    let words = bytes.div_ceil(4);
    let pairs = walk.size() * (words - words / 2);
    let mut record = vec![
        out.address(),
        keys.address(),
        Word::from(walk.size()),
        Word::from(bytes),
        Word::from(keys.strides()[rank]),
        Word::from(walk.dims.len()),
    ];
    record.extend(walk.words());
    e.launch("random_bits", grid(pairs.div_ceil(THREADS * 4)), &record)
}
