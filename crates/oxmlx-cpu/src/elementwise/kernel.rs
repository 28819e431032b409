//! The loops: what turns a scalar definition into a kernel over a block.
//!
//! A kernel is a plain function pointer, so that a fused program is a list of words. Operands are dense or
//! one element; the result never overlaps an operand (the callers see to it), which spares the compiler's
//! overlap checks from failing.

use super::elem::Elem;
use crate::simd::dispatch;

/// A block of one operand: (source, destination, elements).
pub type Unary = unsafe fn(*const u8, *mut u8, usize);
/// A block of two operands: (a, b, destination, elements, which of them are dense).
pub type Binary = unsafe fn(*const u8, *const u8, *mut u8, usize, Form);
/// A block of a choice: (condition, a, b, destination, elements, whether a and b are single elements).
pub type Select = unsafe fn(*const u8, *const u8, *const u8, *mut u8, usize, bool, bool);

/// Which operands of a binary kernel are dense; the other is one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Both.
    Both,
    /// The first: the second is one element.
    First,
    /// The second: the first is one element.
    Second,
}

/// A scalar function of one operand.
pub(crate) trait Map<C: Copy> {
    type Out: Copy;
    /// Whether some operands take another way.
    const HUGE: bool = false;
    fn map(x: C) -> Self::Out;
    /// Whether x takes the other way.
    fn is_huge(_x: C) -> bool {
        false
    }
    /// The other way.
    fn huge(x: C) -> Self::Out {
        Self::map(x)
    }
}

/// A scalar function of two operands.
pub(crate) trait Map2<C: Copy> {
    type Out: Copy;
    /// Whether some pairs take another way.
    const HUGE: bool = false;
    fn map(a: C, b: C) -> Self::Out;
    /// Whether (a, b) takes the other way.
    fn is_huge(_a: C, _b: C) -> bool {
        false
    }
    /// The other way.
    fn huge(a: C, b: C) -> Self::Out {
        Self::map(a, b)
    }
}

#[inline(always)]
unsafe fn unary_body<T: Elem, O: Elem, K: Map<T::C, Out = O::C>>(src: *const u8, dst: *mut u8, n: usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<O>());
    if !K::HUGE {
        for i in 0..n {
            // SAFETY: the caller promises n elements at both ends.
            unsafe { *dst.add(i) = O::narrow(K::map((*src.add(i)).widen())) }
        }
        return;
    }
    let mut begin = 0;
    while begin < n {
        let len = (n - begin).min(256);
        let mut any = false;
        for i in begin..begin + len {
            // SAFETY: as above.
            unsafe {
                let x = (*src.add(i)).widen();
                any |= K::is_huge(x);
                *dst.add(i) = O::narrow(K::map(x));
            }
        }
        if any {
            for i in begin..begin + len {
                // SAFETY: as above.
                unsafe {
                    let x = (*src.add(i)).widen();
                    if K::is_huge(x) {
                        *dst.add(i) = O::narrow(K::huge(x));
                    }
                }
            }
        }
        begin += len;
    }
}

dispatch! {
    /// The kernel of a unary function K from stored T to stored O.
    unary_kernel [T: Elem, O: Elem, K: Map<T::C, Out = O::C>]
        (src: *const u8, dst: *mut u8, n: usize) -> () = unary_body
}

#[inline(always)]
unsafe fn binary_body<T: Elem, O: Elem, K: Map2<T::C, Out = O::C>>(
    a: *const u8,
    b: *const u8,
    dst: *mut u8,
    n: usize,
    form: Form,
) {
    let (a, b, dst) = (a.cast::<T>(), b.cast::<T>(), dst.cast::<O>());
    // SAFETY: the caller promises n elements behind dense operands and one behind others.
    unsafe {
        match form {
            Form::Both => {
                for i in 0..n {
                    *dst.add(i) = O::narrow(K::map((*a.add(i)).widen(), (*b.add(i)).widen()));
                }
            }
            Form::First => {
                let y = (*b).widen();
                for i in 0..n {
                    *dst.add(i) = O::narrow(K::map((*a.add(i)).widen(), y));
                }
            }
            Form::Second => {
                let x = (*a).widen();
                for i in 0..n {
                    *dst.add(i) = O::narrow(K::map(x, (*b.add(i)).widen()));
                }
            }
        }
        if K::HUGE {
            let (sa, sb) = ((form != Form::Second) as usize, (form != Form::First) as usize);
            let mut any = false;
            for i in 0..n {
                any |= K::is_huge((*a.add(i * sa)).widen(), (*b.add(i * sb)).widen());
            }
            if any {
                for i in 0..n {
                    let (x, y) = ((*a.add(i * sa)).widen(), (*b.add(i * sb)).widen());
                    if K::is_huge(x, y) {
                        *dst.add(i) = O::narrow(K::huge(x, y));
                    }
                }
            }
        }
    }
}

dispatch! {
    /// The kernel of a binary function K from stored T to stored O.
    binary_kernel [T: Elem, O: Elem, K: Map2<T::C, Out = O::C>]
        (a: *const u8, b: *const u8, dst: *mut u8, n: usize, form: Form) -> () = binary_body
}

#[inline(always)]
unsafe fn select_body<T: Elem>(
    cond: *const u8,
    a: *const u8,
    b: *const u8,
    dst: *mut u8,
    n: usize,
    a_one: bool,
    b_one: bool,
) {
    let (a, b, dst) = (a.cast::<T>(), b.cast::<T>(), dst.cast::<T>());
    // SAFETY: the caller promises n elements behind dense operands and one behind others.
    unsafe {
        match (a_one, b_one) {
            (false, false) => {
                for i in 0..n {
                    let (x, y) = (*a.add(i), *b.add(i));
                    *dst.add(i) = if *cond.add(i) != 0 { x } else { y };
                }
            }
            (true, false) => {
                let x = *a;
                for i in 0..n {
                    let y = *b.add(i);
                    *dst.add(i) = if *cond.add(i) != 0 { x } else { y };
                }
            }
            (false, true) => {
                let y = *b;
                for i in 0..n {
                    let x = *a.add(i);
                    *dst.add(i) = if *cond.add(i) != 0 { x } else { y };
                }
            }
            (true, true) => {
                let (x, y) = (*a, *b);
                for i in 0..n {
                    *dst.add(i) = if *cond.add(i) != 0 { x } else { y };
                }
            }
        }
    }
}

dispatch! {
    /// The kernel that chooses between stored T.
    select_kernel [T: Elem] (
        cond: *const u8, a: *const u8, b: *const u8, dst: *mut u8, n: usize, a_one: bool, b_one: bool
    ) -> () = select_body
}
