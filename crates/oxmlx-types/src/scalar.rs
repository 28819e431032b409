//! A number on the host together with its element type: what an immediate operand is.
//!
//! The value is kept as the element's own bits in a 64-bit word, since that word is exactly what travels to
//! a kernel through the parameter block, and since equality must be equality of bits (two NaNs are the same
//! immediate, 0.0 and -0.0 are not).

use crate::{Complex, Dtype, bf16, f16};

/// One element on the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Its element type.
    pub dtype: Dtype,
    /// The element's bits, zero-extended.
    pub bits: u64,
}

impl Scalar {
    /// Rounds `v` to `dtype`. Integers truncate; what does not fit (and NaN) becomes the least int32 for types
    /// up to int32 and the least int64 for wider ones, then wraps, as on x86 and in MLX.
    pub fn from_f64(v: f64, dtype: Dtype) -> Scalar {
        let bits = match dtype {
            Dtype::Bool => (v != 0.0) as u64,
            Dtype::Float16 => f16::from_f64(v).to_bits() as u64,
            Dtype::Bfloat16 => bf16::from_f64(v).to_bits() as u64,
            Dtype::Float32 => (v as f32).to_bits() as u64,
            Dtype::Float64 => v.to_bits(),
            Dtype::Complex64 => (v as f32).to_bits() as u64,
            Dtype::Uint64 if v >= TWO_63 => v as u64,
            Dtype::Uint32 | Dtype::Uint64 | Dtype::Int64 => return Scalar::from_i64(truncate(v), dtype),
            _ if v.is_nan() || v >= 2_147_483_648.0 || v <= -2_147_483_649.0 => {
                return Scalar::from_i64(i32::MIN as i64, dtype);
            }
            _ => return Scalar::from_i64(v as i64, dtype),
        };
        Scalar { dtype, bits }
    }

    /// Converts an integer, wrapping into narrower integer types.
    pub fn from_i64(v: i64, dtype: Dtype) -> Scalar {
        let bits = match dtype {
            Dtype::Bool => (v != 0) as u64,
            Dtype::Uint8 | Dtype::Int8 => v as u8 as u64,
            Dtype::Uint16 | Dtype::Int16 => v as u16 as u64,
            Dtype::Uint32 | Dtype::Int32 => v as u32 as u64,
            Dtype::Uint64 | Dtype::Int64 => v as u64,
            Dtype::Float32 | Dtype::Complex64 => (v as f32).to_bits() as u64,
            _ => return Scalar::from_f64(v as f64, dtype),
        };
        Scalar { dtype, bits }
    }

    /// A complex value; real types keep the real part.
    pub fn from_complex(re: f64, im: f64, dtype: Dtype) -> Scalar {
        if dtype == Dtype::Complex64 {
            let bits = (re as f32).to_bits() as u64 | ((im as f32).to_bits() as u64) << 32;
            Scalar { dtype, bits }
        } else {
            Scalar::from_f64(re, dtype)
        }
    }

    /// A truth value.
    pub fn from_bool(v: bool) -> Scalar {
        Scalar { dtype: Dtype::Bool, bits: v as u64 }
    }

    /// The value as float64: exact for all but 64-bit integers; the real part of a complex number.
    pub fn to_f64(self) -> f64 {
        let b = self.bits;
        match self.dtype {
            Dtype::Float16 => f16::from_bits(b as u16).to_f64(),
            Dtype::Bfloat16 => bf16::from_bits(b as u16).to_f64(),
            Dtype::Float32 | Dtype::Complex64 => f32::from_bits(b as u32) as f64,
            Dtype::Float64 => f64::from_bits(b),
            Dtype::Uint64 => b as f64,
            _ => self.to_i64() as f64,
        }
    }

    /// The value as int64; floats truncate; uint64 wraps.
    pub fn to_i64(self) -> i64 {
        let b = self.bits;
        match self.dtype {
            Dtype::Bool | Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 | Dtype::Int64 => {
                b as i64
            }
            Dtype::Int8 => b as u8 as i8 as i64,
            Dtype::Int16 => b as u16 as i16 as i64,
            Dtype::Int32 => b as u32 as i32 as i64,
            _ => truncate(self.to_f64()),
        }
    }

    /// The value as a complex number.
    pub fn to_complex(self) -> Complex {
        match self.dtype {
            Dtype::Complex64 => {
                Complex::new(f32::from_bits(self.bits as u32), f32::from_bits((self.bits >> 32) as u32))
            }
            _ => Complex::new(self.to_f64() as f32, 0.0),
        }
    }

    /// Whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self.dtype {
            Dtype::Complex64 => self.to_complex() != Complex::new(0.0, 0.0),
            d if d.is_floating() => self.to_f64() != 0.0,
            _ => self.bits != 0,
        }
    }

    /// The same number in another type, as `astype` converts it.
    pub fn cast(self, dtype: Dtype) -> Scalar {
        if dtype == self.dtype {
            return self;
        }
        match (self.dtype, dtype) {
            (_, Dtype::Bool) => Scalar::from_bool(self.to_bool()),
            (Dtype::Uint64, d) if d.is_inexact() => Scalar::from_f64(self.bits as f64, d),
            (Dtype::Complex64, d) => Scalar::from_f64(self.to_f64(), d),
            (s, d) if s.is_floating() => Scalar::from_f64(self.to_f64(), d),
            (_, d) => Scalar::from_i64(self.to_i64(), d),
        }
    }
}

/// 2^63.
const TWO_63: f64 = (1u64 << 63) as f64;

/// Truncation towards zero with x86's answer for what does not fit.
fn truncate(v: f64) -> i64 {
    if v.is_nan() || !(-TWO_63..TWO_63).contains(&v) { i64::MIN } else { v as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_wrap_and_truncate() {
        assert_eq!(Scalar::from_i64(300, Dtype::Uint8).to_i64(), 44);
        assert_eq!(Scalar::from_f64(1.9, Dtype::Int32).to_i64(), 1);
        assert_eq!(Scalar::from_f64(-1.0, Dtype::Float32).cast(Dtype::Uint8).to_i64(), 255);
        assert!(Scalar::from_f64(f64::NAN, Dtype::Float32).cast(Dtype::Bool).to_bool());
        assert_eq!(Scalar::from_i64(-1, Dtype::Int64).cast(Dtype::Uint64).to_f64(), u64::MAX as f64);
    }
}
