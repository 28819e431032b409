//! Owned arrays for unit tests: values go in and come out as float64, in any layout.

use crate::view::{View, ViewMut};
use oxmlx_types::{Dtype, Layout, Result, Scalar};

/// A poll that never interrupts.
pub(crate) fn ok() -> Result<()> {
    Ok(())
}

/// A buffer with a layout.
#[derive(Clone)]
pub(crate) struct Owned {
    words: Vec<u64>,
    pub dtype: Dtype,
    pub layout: Layout,
}

impl Owned {
    pub(crate) fn zeros(dtype: Dtype, shape: &[usize]) -> Owned {
        let layout = Layout::contiguous(shape);
        // Filled with ones, so that a kernel which forgets an element is seen.
        let words = vec![u64::MAX; layout.size() * dtype.size() / 8 + 1];
        Owned { words, dtype, layout }
    }

    pub(crate) fn from_f64(dtype: Dtype, shape: &[usize], values: &[f64]) -> Owned {
        let mut a = Owned::zeros(dtype, shape);
        assert_eq!(values.len(), a.layout.size());
        for (i, v) in values.iter().enumerate() {
            a.set(i, *v);
        }
        a
    }

    /// 0, 1, 2 ... wrapped to what the dtype holds exactly.
    pub(crate) fn ramp(dtype: Dtype, shape: &[usize]) -> Owned {
        let n: usize = shape.iter().product();
        let m = if dtype == Dtype::Bool {
            2
        } else if dtype.size() == 1 {
            100
        } else if dtype.size() == 2 {
            256
        } else {
            1 << 20
        };
        Owned::from_f64(dtype, shape, &(0..n).map(|i| (i % m) as f64).collect::<Vec<_>>())
    }

    /// Small pseudo-random values that every dtype holds exactly: integers of -4..=4 (0..=4 unsigned), with
    /// halves for inexact types.
    pub(crate) fn noise(dtype: Dtype, shape: &[usize], seed: u64) -> Owned {
        let n: usize = shape.iter().product();
        let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let values: Vec<f64> = (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                let v = (s % 17) as f64 - 8.0;
                match dtype {
                    Dtype::Bool => (v > 0.0) as u8 as f64,
                    d if d.is_inexact() => v / 2.0,
                    d if d.is_unsigned() => (v / 2.0).abs().floor(),
                    _ => (v / 2.0).floor(),
                }
            })
            .collect();
        Owned::from_f64(dtype, shape, &values)
    }

    pub(crate) fn with(&self, layout: Layout) -> Owned {
        Owned { layout, ..self.clone() }
    }

    pub(crate) fn permuted(&self, axes: &[usize]) -> Owned {
        self.with(self.layout.permute(axes))
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { ptr: self.words.as_ptr().cast(), dtype: self.dtype, layout: &self.layout }
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut { ptr: self.words.as_mut_ptr().cast(), dtype: self.dtype, layout: &self.layout }
    }

    /// The buffer's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the words' own memory.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    fn set(&mut self, at: usize, v: f64) {
        let bits = Scalar::from_f64(v, self.dtype).bits.to_le_bytes();
        let size = self.dtype.size();
        // SAFETY: the words' own memory.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast::<u8>(), self.words.len() * 8)
        };
        bytes[at * size..(at + 1) * size].copy_from_slice(&bits[..size]);
    }

    fn scalar(&self, at: usize) -> Scalar {
        let size = self.dtype.size();
        let mut bits = [0u8; 8];
        bits[..size].copy_from_slice(&self.bytes()[at * size..(at + 1) * size]);
        Scalar { dtype: self.dtype, bits: u64::from_le_bytes(bits) }
    }

    /// The elements in row-major order.
    pub(crate) fn to_vec(&self) -> Vec<f64> {
        let l = &self.layout;
        let dense = oxmlx_types::contiguous_strides(&l.shape);
        (0..l.size())
            .map(|i| {
                let mut at = l.offset as isize;
                for a in 0..l.ndim() {
                    at += (i / dense[a] as usize % l.shape[a]) as isize * l.strides[a];
                }
                self.scalar(at as usize).to_f64()
            })
            .collect()
    }
}
