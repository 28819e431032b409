//! Running a program's steps on one block.
//!
//! Operands of smaller extent are single elements where one row is at hand; where a block holds several
//! short rows, a step either runs row by row or, for very short rows, on an expanded copy.

use super::gather::{expand, repeat};
use super::program::{Code, Register, Step};
use crate::elementwise::Form;
use oxmlx_core::plan::Extent;
use smallvec::SmallVec;

/// Rows shorter than this are expanded instead of being walked one by one.
const SHORT: usize = 16;

/// Addresses of all registers for the block at hand.
pub(super) type Addresses = SmallVec<[*mut u8; 24]>;

/// Runs a step on `n` elements; operands marked `one` are single elements.
unsafe fn apply(code: &Code, p: [*const u8; 3], one: [bool; 3], dst: *mut u8, size: usize, n: usize) {
    if n == 0 {
        return;
    }
    // SAFETY: the caller's promise: n elements (or one) behind each operand, room for n at dst, no overlap.
    unsafe {
        match *code {
            Code::Unary(f) => {
                f(p[0], dst, if one[0] { 1 } else { n });
                if one[0] {
                    repeat(dst, size, n * size);
                }
            }
            Code::Binary(f) => match (one[0], one[1]) {
                (false, false) => f(p[0], p[1], dst, n, Form::Both),
                (false, true) => f(p[0], p[1], dst, n, Form::First),
                (true, false) => f(p[0], p[1], dst, n, Form::Second),
                (true, true) => {
                    f(p[0], p[1], dst, 1, Form::Both);
                    repeat(dst, size, n * size);
                }
            },
            Code::Select(f) => {
                if one[0] {
                    let chosen = if *p[0] != 0 { 1 } else { 2 };
                    copy(p[chosen], one[chosen], dst, size, n);
                } else {
                    f(p[0], p[1], p[2], dst, n, one[1], one[2]);
                }
            }
            Code::Copy => copy(p[0], one[0], dst, size, n),
            // Reductions have a place of their own in `full`.
            Code::Reduce(..) => {}
        }
    }
}

unsafe fn copy(src: *const u8, one: bool, dst: *mut u8, size: usize, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, if one { size } else { n * size });
        if one {
            repeat(dst, size, n * size);
        }
    }
}

/// Runs a step on `n` single elements or rows' values; operands of lower extent than `extent` are single.
///
/// # Safety
/// Every register of the step has its address.
pub(super) unsafe fn narrow(step: &Step, regs: &[Register], at: &[*mut u8], extent: Extent, n: usize) {
    let (mut p, mut one) = ([std::ptr::null::<u8>(); 3], [false; 3]);
    for (i, &s) in step.srcs().iter().enumerate() {
        p[i] = at[s as usize];
        one[i] = regs[s as usize].extent != extent;
    }
    let d = step.dst as usize;
    // SAFETY: the caller's promise.
    unsafe { apply(&step.code, p, one, at[d], regs[d].size, n) }
}

/// Runs a step on a block of `rows` rows of `n` elements each. `spare` has room for three blocks of words.
///
/// # Safety
/// Every register of the step has its address, and room for the block.
pub(super) unsafe fn full(
    step: &Step,
    regs: &[Register],
    at: &[*mut u8],
    rows: usize,
    n: usize,
    spare: *mut u8,
) {
    let (mut p, mut one) = ([std::ptr::null::<u8>(); 3], [false; 3]);
    let mut by_row = [0usize; 3];
    let mut any_row = false;
    for (i, &s) in step.srcs().iter().enumerate() {
        let r = &regs[s as usize];
        p[i] = at[s as usize];
        one[i] = r.extent != Extent::Full;
        by_row[i] = match r.extent {
            Extent::One => 0,
            Extent::Row => r.size,
            Extent::Full => r.size * n,
        };
        any_row |= r.extent == Extent::Row;
    }
    let d = step.dst as usize;
    let (dst, size) = (at[d], regs[d].size);
    // SAFETY: the caller's promise; addresses advance within their blocks.
    unsafe {
        if !any_row {
            apply(&step.code, p, one, dst, size, rows * n);
        } else if rows == 1 || n >= SHORT {
            for r in 0..rows {
                apply(&step.code, p, one, dst.add(r * n * size), size, n);
                for i in 0..3 {
                    p[i] = p[i].wrapping_add(by_row[i]);
                }
            }
        } else {
            for (i, &s) in step.srcs().iter().enumerate() {
                let r = &regs[s as usize];
                if r.extent == Extent::Row {
                    let room = spare.add(i * rows * n * 8);
                    expand(p[i], r.size, rows, n, room);
                    (p[i], one[i]) = (room, false);
                }
            }
            apply(&step.code, p, one, dst, size, rows * n);
        }
    }
}

/// The dense source of a reduction: its register's block, or an expanded copy in `spare`.
///
/// # Safety
/// As [`full`].
pub(super) unsafe fn reduce_source(
    r: &Register,
    at: *const u8,
    rows: usize,
    n: usize,
    spare: *mut u8,
) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe {
        match r.extent {
            Extent::Full => return at,
            Extent::Row => expand(at, r.size, rows, n, spare),
            Extent::One => expand(at, r.size, 1, rows * n, spare),
        }
    }
    spare
}
