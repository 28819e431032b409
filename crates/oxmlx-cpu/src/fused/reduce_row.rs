//! Reductions along rows, defined once.
//!
//! A fused softmax, a plain sum and a sum that is cut over threads must give the same bits, so the order of
//! operations is fixed here and nowhere else: a row is cut into chunks of [`CHUNK`] elements; a chunk is
//! reduced into [`LANES`] accumulators, element i into accumulator i mod `LANES`, which are then combined in
//! a fixed tree; chunk results are combined from left to right. Halves accumulate in float32 and round once.

use crate::elementwise::elem::{Elem, Float, Int, Truth};
use crate::elementwise::{complex as c, maximum, minimum};
use crate::simd::dispatch;
use oxmlx_core::primitive::ReduceOp;
use oxmlx_types::{Complex, Dtype, bf16, f16};

/// Elements that are reduced at once.
pub const CHUNK: usize = 4096;
/// Accumulators of a chunk.
pub const LANES: usize = 32;

/// The pieces of one reduction over one dtype. An accumulator is a word that holds one value of the type in
/// which the reduction computes.
#[derive(Clone, Copy)]
pub struct Reducer {
    /// `acc = reduction of n <= CHUNK dense elements`; of none: the identity.
    pub chunk: unsafe fn(src: *const u8, n: usize, acc: *mut u64),
    /// `acc = acc op x`.
    pub combine: unsafe fn(acc: *mut u64, x: *const u64),
    /// Rounds an accumulator to an element.
    pub store: unsafe fn(acc: *const u64, dst: *mut u8),
    /// Reduces `rows` dense rows of `len <= CHUNK` elements to `rows` elements.
    pub rows: unsafe fn(src: *const u8, rows: usize, len: usize, dst: *mut u8),
    /// `acc[i] = acc[i] op element i`, for n accumulators that lie side by side: the step of a reduction along
    /// an axis that is not the last.
    pub across: unsafe fn(acc: *mut u64, src: *const u8, n: usize),
}

/// What is folded.
pub(crate) trait Fold<C: Copy> {
    fn identity() -> C;
    fn combine(a: C, b: C) -> C;
    /// Whether some values are only flagged within a chunk, and decide the result when it is done: NaN among
    /// maxima, which else costs every step.
    const FLAGS: bool = false;
    fn is_flagged(_x: C) -> bool {
        false
    }
    /// `combine` of values that aren't flagged.
    fn quick(a: C, b: C) -> C {
        Self::combine(a, b)
    }
    /// The result where something was flagged.
    fn flagged() -> C {
        Self::identity()
    }
}

#[inline(always)]
unsafe fn lanes<T: Elem, K: Fold<T::C>>(src: *const T, n: usize) -> T::C {
    let mut acc = [K::identity(); LANES];
    let mut flags = [0u32; LANES];
    let full = n / LANES * LANES;
    let mut i = 0;
    while i < full {
        for l in 0..LANES {
            // SAFETY: i + l < full <= n, and the caller promises n elements.
            let x = unsafe { *src.add(i + l) }.widen();
            acc[l] = K::quick(acc[l], x);
            if K::FLAGS {
                flags[l] |= K::is_flagged(x) as u32;
            }
        }
        i += LANES;
    }
    if full < n {
        // Through a padded copy: a variable index into the accumulators would keep them out of registers.
        let mut rest = [K::identity(); LANES];
        for (l, r) in rest.iter_mut().enumerate().take(n - full) {
            // SAFETY: full + l < n.
            *r = unsafe { *src.add(full + l) }.widen();
        }
        for l in 0..LANES {
            acc[l] = K::quick(acc[l], rest[l]);
            if K::FLAGS {
                flags[l] |= K::is_flagged(rest[l]) as u32;
            }
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] = K::quick(acc[l], acc[l + width]);
        }
        width /= 2;
    }
    if K::FLAGS && flags.iter().fold(0, |a, f| a | f) != 0 { K::flagged() } else { acc[0] }
}

#[inline(always)]
unsafe fn chunk_body<T: Elem, K: Fold<T::C>>(src: *const u8, n: usize, acc: *mut u64) {
    // SAFETY: the caller's promise; an accumulator is a word, and no C is larger.
    unsafe { *acc.cast::<T::C>() = lanes::<T, K>(src.cast(), n) }
}

#[inline(always)]
unsafe fn rows_body<T: Elem, K: Fold<T::C>>(src: *const u8, rows: usize, len: usize, dst: *mut u8) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    for r in 0..rows {
        // SAFETY: the caller promises rows * len elements and rows results.
        unsafe { *dst.add(r) = T::narrow(lanes::<T, K>(src.add(r * len), len)) }
    }
}

#[inline(always)]
unsafe fn across_body<T: Elem, K: Fold<T::C>>(acc: *mut u64, src: *const u8, n: usize) {
    let (acc, src) = (acc.cast::<T::C>(), src.cast::<T>());
    for i in 0..n {
        // SAFETY: the caller promises n accumulators, dense values of C, and n elements.
        unsafe { *acc.add(i) = K::combine(*acc.add(i), (*src.add(i)).widen()) }
    }
}

dispatch! { chunk_kernel [T: Elem, K: Fold<T::C>] (src: *const u8, n: usize, acc: *mut u64) -> () = chunk_body }
dispatch! {
    rows_kernel [T: Elem, K: Fold<T::C>] (src: *const u8, rows: usize, len: usize, dst: *mut u8) -> () = rows_body
}
dispatch! { across_kernel [T: Elem, K: Fold<T::C>] (acc: *mut u64, src: *const u8, n: usize) -> () = across_body }

unsafe fn combine<T: Elem, K: Fold<T::C>>(acc: *mut u64, x: *const u64) {
    // SAFETY: the caller promises two accumulators.
    unsafe { *acc.cast::<T::C>() = K::combine(*acc.cast::<T::C>(), *x.cast::<T::C>()) }
}

unsafe fn store<T: Elem>(acc: *const u64, dst: *mut u8) {
    // SAFETY: the caller promises an accumulator and room for an element.
    unsafe { *dst.cast::<T>() = T::narrow(*acc.cast::<T::C>()) }
}

fn pieces<T: Elem, K: Fold<T::C>>() -> Option<Reducer> {
    Some(Reducer {
        chunk: chunk_kernel::<T, K>(),
        combine: combine::<T, K>,
        store: store::<T>,
        rows: rows_kernel::<T, K>(),
        across: across_kernel::<T, K>(),
    })
}

macro_rules! folds {
    ($($name:ident for $bound:ident { $identity:expr, |$a:ident, $b:ident| $e:expr $(, nan or $quick:expr)? })*) => {$(
        struct $name;
        impl<C: $bound> Fold<C> for $name {
            $(
                const FLAGS: bool = true;
                #[inline(always)]
                fn is_flagged(x: C) -> bool { x.is_nan() }
                #[inline(always)]
                fn quick($a: C, $b: C) -> C { $quick }
                #[inline(always)]
                fn flagged() -> C { C::NAN }
            )?
            #[inline(always)]
            fn identity() -> C { $identity }
            #[inline(always)]
            fn combine($a: C, $b: C) -> C { $e }
        }
    )*};
}
folds! {
    SumFloat for Float { C::ZERO, |a, b| a + b }
    ProdFloat for Float { C::ONE, |a, b| a * b }
    MaxFloat for Float { -C::INFINITY, |a, b| maximum(a, b), nan or if a > b { a } else { b } }
    MinFloat for Float { C::INFINITY, |a, b| minimum(a, b), nan or if a < b { a } else { b } }
    SumInt for Int { C::ZERO, |a, b| a.add(b) }
    ProdInt for Int { C::ONE, |a, b| a.mul(b) }
    MaxInt for Int { C::LEAST, |a, b| a.max(b) }
    MinInt for Int { C::GREATEST, |a, b| a.min(b) }
}

struct Or;
impl Fold<bool> for Or {
    #[inline(always)]
    fn identity() -> bool {
        false
    }
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a | b
    }
}
struct And;
impl Fold<bool> for And {
    #[inline(always)]
    fn identity() -> bool {
        true
    }
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a & b
    }
}

macro_rules! complex_folds {
    ($($name:ident { $re:expr, $im:expr, |$a:ident, $b:ident| $e:expr })*) => {$(
        struct $name;
        impl Fold<Complex> for $name {
            #[inline(always)]
            fn identity() -> Complex { Complex::new($re, $im) }
            #[inline(always)]
            fn combine($a: Complex, $b: Complex) -> Complex { $e }
        }
    )*};
}
complex_folds! {
    SumComplex { 0.0, 0.0, |a, b| a + b }
    ProdComplex { 1.0, 0.0, |a, b| c::mul(a, b) }
    MaxComplex { f32::NEG_INFINITY, f32::NEG_INFINITY, |a, b| c::maximum(a, b) }
    MinComplex { f32::INFINITY, f32::INFINITY, |a, b| c::minimum(a, b) }
}

fn float<T: Elem>(op: ReduceOp) -> Option<Reducer>
where
    T::C: Float,
{
    match op {
        ReduceOp::Sum => pieces::<T, SumFloat>(),
        ReduceOp::Prod => pieces::<T, ProdFloat>(),
        ReduceOp::Max => pieces::<T, MaxFloat>(),
        ReduceOp::Min => pieces::<T, MinFloat>(),
        ReduceOp::All | ReduceOp::Any => None,
    }
}

fn int<T: Int>(op: ReduceOp) -> Option<Reducer> {
    match op {
        ReduceOp::Sum => pieces::<T, SumInt>(),
        ReduceOp::Prod => pieces::<T, ProdInt>(),
        ReduceOp::Max => pieces::<T, MaxInt>(),
        ReduceOp::Min => pieces::<T, MinInt>(),
        ReduceOp::All | ReduceOp::Any => None,
    }
}

fn truth(op: ReduceOp) -> Option<Reducer> {
    match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::Any => pieces::<Truth, Or>(),
        ReduceOp::Prod | ReduceOp::Min | ReduceOp::All => pieces::<Truth, And>(),
    }
}

fn complex(op: ReduceOp) -> Option<Reducer> {
    match op {
        ReduceOp::Sum => pieces::<Complex, SumComplex>(),
        ReduceOp::Prod => pieces::<Complex, ProdComplex>(),
        ReduceOp::Max => pieces::<Complex, MaxComplex>(),
        ReduceOp::Min => pieces::<Complex, MinComplex>(),
        ReduceOp::All | ReduceOp::Any => None,
    }
}

/// The pieces of reduction `op` over elements of dtype `d`; `None` for all/any of anything but bool.
pub fn reducer(op: ReduceOp, d: Dtype) -> Option<Reducer> {
    match d {
        Dtype::Bool => truth(op),
        Dtype::Uint8 => int::<u8>(op),
        Dtype::Uint16 => int::<u16>(op),
        Dtype::Uint32 => int::<u32>(op),
        Dtype::Uint64 => int::<u64>(op),
        Dtype::Int8 => int::<i8>(op),
        Dtype::Int16 => int::<i16>(op),
        Dtype::Int32 => int::<i32>(op),
        Dtype::Int64 => int::<i64>(op),
        Dtype::Float16 => float::<f16>(op),
        Dtype::Float32 => float::<f32>(op),
        Dtype::Float64 => float::<f64>(op),
        Dtype::Bfloat16 => float::<bf16>(op),
        Dtype::Complex64 => complex(op),
    }
}

/// Reduces one dense row of any length to an element at `dst`.
///
/// # Safety
/// `src` has `len` elements of the reducer's dtype, `dst` room for one.
pub unsafe fn reduce_row(r: &Reducer, size: usize, src: *const u8, len: usize, dst: *mut u8) {
    let mut acc = 0u64;
    // SAFETY: the caller's promise; chunks lie within the row.
    unsafe {
        (r.chunk)(src, len.min(CHUNK), &raw mut acc);
        let mut at = CHUNK;
        while at < len {
            let mut x = 0u64;
            (r.chunk)(src.add(at * size), (len - at).min(CHUNK), &raw mut x);
            (r.combine)(&raw mut acc, &raw const x);
            at += CHUNK;
        }
        (r.store)(&raw const acc, dst);
    }
}
