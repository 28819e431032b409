//! Conversions between all fourteen element types.
//!
//! Floats truncate towards zero into integers; what does not fit becomes what x86's conversion gives: the
//! least int32 (through which 8 and 16 bits go) or the least int64 (through which uint32 goes).

use super::elem::{Elem, Truth};
use super::kernel::{Map, Unary, unary_kernel};
use oxmlx_types::{Complex, Dtype, bf16, f16};

/// Conversion between types of computation.
pub(crate) trait Conv<D>: Copy {
    fn conv(self) -> D;
}

macro_rules! as_casts {
    ($($s:ty => $($d:ty),*;)*) => {$($(
        impl Conv<$d> for $s {
            #[inline(always)]
            fn conv(self) -> $d { self as $d }
        }
    )*)*};
}
as_casts! {
    u8 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    u16 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    u32 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    u64 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    i8 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    i16 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    i32 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    i64 => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
    f32 => f32, f64;
    f64 => f32, f64;
}

macro_rules! float_casts {
    ($($f:ty, $word:ident, $long:ident, $ulong:ident);*) => {$(
        #[inline(always)]
        fn $word(x: $f) -> i32 {
            if (-2147483648.0..2147483648.0).contains(&x) {
                // SAFETY: x is within range.
                unsafe { x.to_int_unchecked() }
            } else {
                i32::MIN
            }
        }
        #[inline(always)]
        fn $long(x: $f) -> i64 {
            if (-((1u64 << 63) as $f)..(1u64 << 63) as $f).contains(&x) {
                // SAFETY: x is within range.
                unsafe { x.to_int_unchecked() }
            } else {
                i64::MIN
            }
        }
        #[inline(always)]
        fn $ulong(x: $f) -> u64 {
            if x >= (1u64 << 63) as $f { x as u64 } else { $long(x) as u64 }
        }
        impl Conv<i8> for $f { #[inline(always)] fn conv(self) -> i8 { $word(self) as i8 } }
        impl Conv<i16> for $f { #[inline(always)] fn conv(self) -> i16 { $word(self) as i16 } }
        impl Conv<i32> for $f { #[inline(always)] fn conv(self) -> i32 { $word(self) } }
        impl Conv<i64> for $f { #[inline(always)] fn conv(self) -> i64 { $long(self) } }
        impl Conv<u8> for $f { #[inline(always)] fn conv(self) -> u8 { $word(self) as u8 } }
        impl Conv<u16> for $f { #[inline(always)] fn conv(self) -> u16 { $word(self) as u16 } }
        impl Conv<u32> for $f { #[inline(always)] fn conv(self) -> u32 { $long(self) as u32 } }
        impl Conv<u64> for $f { #[inline(always)] fn conv(self) -> u64 { $ulong(self) } }
        impl Conv<bool> for $f { #[inline(always)] fn conv(self) -> bool { self != 0.0 } }
        impl Conv<Complex> for $f { #[inline(always)] fn conv(self) -> Complex { Complex::new(self as f32, 0.0) } }
    )*};
}
float_casts!(f32, word_of_f32, long_of_f32, ulong_of_f32; f64, word_of_f64, long_of_f64, ulong_of_f64);

macro_rules! other_casts {
    ($($i:ty)*) => {$(
        impl Conv<bool> for $i { #[inline(always)] fn conv(self) -> bool { self != 0 } }
        impl Conv<Complex> for $i { #[inline(always)] fn conv(self) -> Complex { Complex::new(self as f32, 0.0) } }
        impl Conv<$i> for bool { #[inline(always)] fn conv(self) -> $i { self as $i } }
        impl Conv<$i> for Complex { #[inline(always)] fn conv(self) -> $i { self.re.conv() } }
    )*};
}
other_casts!(u8 u16 u32 u64 i8 i16 i32 i64);

macro_rules! closures {
    ($($s:ty => $d:ty: |$x:ident| $e:expr;)*) => {$(
        impl Conv<$d> for $s { #[inline(always)] fn conv(self) -> $d { let $x = self; $e } }
    )*};
}
closures! {
    bool => bool: |x| x;
    bool => f32: |x| x as u8 as f32;
    bool => f64: |x| x as u8 as f64;
    bool => Complex: |x| Complex::new(x as u8 as f32, 0.0);
    Complex => bool: |z| z.re != 0.0 || z.im != 0.0;
    Complex => f32: |z| z.re;
    Complex => f64: |z| z.re as f64;
    Complex => Complex: |z| z;
}

struct Convert<D>(std::marker::PhantomData<D>);

impl<S: Conv<D>, D: Copy> Map<S> for Convert<D> {
    type Out = D;
    #[inline(always)]
    fn map(x: S) -> D {
        x.conv()
    }
}

fn pair<T: Elem, O: Elem>() -> Unary
where
    T::C: Conv<O::C>,
{
    unary_kernel::<T, O, Convert<O::C>>()
}

/// All conversions from one stored type.
fn from<T: Elem>(to: Dtype) -> Unary
where
    T::C: Conv<bool>
        + Conv<u8>
        + Conv<u16>
        + Conv<u32>
        + Conv<u64>
        + Conv<i8>
        + Conv<i16>
        + Conv<i32>
        + Conv<i64>
        + Conv<f32>
        + Conv<f64>
        + Conv<Complex>,
{
    match to {
        Dtype::Bool => pair::<T, Truth>(),
        Dtype::Uint8 => pair::<T, u8>(),
        Dtype::Uint16 => pair::<T, u16>(),
        Dtype::Uint32 => pair::<T, u32>(),
        Dtype::Uint64 => pair::<T, u64>(),
        Dtype::Int8 => pair::<T, i8>(),
        Dtype::Int16 => pair::<T, i16>(),
        Dtype::Int32 => pair::<T, i32>(),
        Dtype::Int64 => pair::<T, i64>(),
        Dtype::Float16 => pair::<T, f16>(),
        Dtype::Float32 => pair::<T, f32>(),
        Dtype::Float64 => pair::<T, f64>(),
        Dtype::Bfloat16 => pair::<T, bf16>(),
        Dtype::Complex64 => pair::<T, Complex>(),
    }
}

/// The kernel that converts from one dtype to another (or copies, where they are equal).
pub fn cast(src: Dtype, dst: Dtype) -> Unary {
    match src {
        Dtype::Bool => from::<Truth>(dst),
        Dtype::Uint8 => from::<u8>(dst),
        Dtype::Uint16 => from::<u16>(dst),
        Dtype::Uint32 => from::<u32>(dst),
        Dtype::Uint64 => from::<u64>(dst),
        Dtype::Int8 => from::<i8>(dst),
        Dtype::Int16 => from::<i16>(dst),
        Dtype::Int32 => from::<i32>(dst),
        Dtype::Int64 => from::<i64>(dst),
        Dtype::Float16 => from::<f16>(dst),
        Dtype::Float32 => from::<f32>(dst),
        Dtype::Float64 => from::<f64>(dst),
        Dtype::Bfloat16 => from::<bf16>(dst),
        Dtype::Complex64 => from::<Complex>(dst),
    }
}
