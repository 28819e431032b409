//! Contents on the host: scalars, bytes in row-major order, and the looks that debugging needs.

use crate::array::{Array, Stored};
use crate::runtime::eval::start;
use oxmlx_types::{Dtype, Error, Layout, Result, Scalar};

impl Array {
    /// The only element, evaluated if it has to be.
    ///
    /// # Errors
    /// InvalidArgument unless the array has exactly one element; whatever evaluation raises.
    pub fn item(&self) -> Result<Scalar> {
        if self.size() != 1 {
            return Err(Error::invalid(
                "convert",
                "Only length-1 arrays can be converted to Python scalars.",
            ));
        }
        if let Some(s) = self.known_scalar() {
            return Ok(s);
        }
        let (buffer, layout) = self.host()?;
        Ok(element(buffer.bytes(), layout.offset, self.dtype()))
    }

    /// Records that a writable view of the host's contents left the engine: they count from now on.
    pub fn mark_escaped(&self) {
        if let Some(s) = self.stored() {
            s.buffer.mark_escaped();
        }
    }

    /// Contents on the host and their layout, evaluated if they have to be.
    pub fn host(&self) -> Result<(crate::runtime::memory::Buffer, Layout)> {
        if let Some(s) = self.known_scalar() {
            let array = Array::from_bytes(&s.bits.to_le_bytes()[..s.dtype.size()], &[], s.dtype)?;
            return array.host();
        }
        if let Some(s) = self.stored() {
            return Ok((s.buffer.host()?, s.layout));
        }
        // What a device computes need not be waited for here: its copy is.
        start(std::slice::from_ref(self))?;
        match self.stored() {
            Some(s) => Ok((s.buffer.host()?, s.layout)),
            None => Err(Error::invalid("eval", "Attempting to eval an array without a primitive.")),
        }
    }

    /// All elements in row-major order.
    pub fn scalars(&self) -> Result<Vec<Scalar>> {
        let (buffer, layout) = self.host()?;
        let bytes = buffer.bytes();
        let mut all = Vec::with_capacity(layout.size());
        for_each_offset(&layout, &mut |at| all.push(element(bytes, at, self.dtype())));
        Ok(all)
    }

    /// All elements as float64, in row-major order; for tests and small reads.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        Ok(self.scalars()?.into_iter().map(Scalar::to_f64).collect())
    }

    /// All elements' bytes in row-major order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (buffer, layout) = self.host()?;
        let size = self.dtype().size();
        let bytes = buffer.bytes();
        if layout.is_contiguous() {
            let begin = layout.offset * size;
            return Ok(bytes[begin..begin + layout.size() * size].to_vec());
        }
        let mut all = Vec::with_capacity(layout.size() * size);
        for_each_offset(&layout, &mut |at| all.extend_from_slice(&bytes[at * size..(at + 1) * size]));
        Ok(all)
    }
}

/// One element of a buffer.
pub fn element(bytes: &[u8], at: usize, dtype: Dtype) -> Scalar {
    let size = dtype.size();
    let mut word = [0u8; 8];
    word[..size].copy_from_slice(&bytes[at * size..(at + 1) * size]);
    Scalar { dtype, bits: u64::from_le_bytes(word) }
}

/// Calls `f` with the buffer position of every element, in row-major order.
pub fn for_each_offset(layout: &Layout, f: &mut dyn FnMut(usize)) {
    fn walk(layout: &Layout, axis: usize, at: isize, f: &mut dyn FnMut(usize)) {
        match layout.shape.get(axis) {
            None => f(at as usize),
            Some(&n) => {
                for i in 0..n as isize {
                    walk(layout, axis + 1, at + i * layout.strides[axis], f);
                }
            }
        }
    }
    walk(layout, 0, layout.offset as isize, f);
}

pub(crate) fn has_nan(stored: &Stored, dtype: Dtype) -> Result<bool> {
    if !dtype.is_inexact() {
        return Ok(false);
    }
    let buffer = stored.buffer.host()?;
    let bytes = buffer.bytes();
    let mut found = false;
    for_each_offset(&stored.layout, &mut |at| {
        let s = element(bytes, at, dtype);
        found |= s.to_f64().is_nan() || (dtype == Dtype::Complex64 && s.to_complex().im.is_nan());
    });
    Ok(found)
}
