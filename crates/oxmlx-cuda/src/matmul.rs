//! Matrix products: the library where it is good, with strides taken as they are; operands that it can't read are
//! first copied. Small products and those with few rows are our own kernels'.

use crate::record::{Encoding, Gemm, Operand, Word};
use crate::{copy, product};
use oxmlx_types::{Layout, Result};

/// One operand's matrices as the library takes them.
struct Side {
    address: Word,
    transposed: bool,
    leading: usize,
    /// Strides of the batch axes.
    batch: Vec<isize>,
}

/// `out = a @ b` for `[.., M, K] x [.., K, N]`.
pub(crate) fn encode(a: &Operand<'_>, b: &Operand<'_>, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    let rank = out.shape().len();
    let (m, n) = (out.shape()[rank - 2], out.shape()[rank - 1]);
    let k = a.shape()[rank - 1];
    if out.size() == 0 {
        return Ok(());
    }
    if k == 0 {
        return copy::fill(out.address(), out.size() * out.dtype.size(), 0, e);
    }
    let [la, lb, lo] = folded([a, b, out].map(|o| o.layout));
    let merged = [(a, &la), (b, &lb), (out, &lo)].map(|(o, layout)| Operand { layout, ..*o });
    let [batch, rows] = [lo.shape[..lo.shape.len() - 2].iter().product(), lo.shape[lo.shape.len() - 2]];
    if product::is_ours(out.dtype, batch, [rows, n, k]) {
        return product::encode(&merged[0], &merged[1], &merged[2], e);
    }
    if rows != m && stored(&la.strides[la.strides.len() - 2..], rows, k).is_some() {
        return library(&merged[0], &merged[1], &merged[2], e);
    }
    library(a, b, out, e)
}

/// Inner batch axes over which the right operand is repeated, made more rows of the left one: attention heads that
/// share keys, one matrix for all of a batch.
fn folded([a, b, out]: [&Layout; 3]) -> [Layout; 3] {
    let [mut a, mut b, mut out] = [a.clone(), b.clone(), out.clone()];
    while out.shape.len() > 2 {
        let axis = out.shape.len() - 3;
        let (count, rows) = (out.shape[axis], out.shape[axis + 1]);
        let (step, row) = (a.strides[axis], a.strides[axis + 1]);
        if count != 1 && (b.strides[axis] != 0 || !(rows == 1 || step == row * rows as isize)) {
            break;
        }
        for l in [&mut a, &mut b, &mut out] {
            l.shape.remove(axis);
            l.strides.remove(axis);
        }
        a.shape[axis] = count * rows;
        out.shape[axis] = count * rows;
        if count != 1 && rows == 1 {
            a.strides[axis] = step;
        }
    }
    [a, b, out]
}

/// The product by the library.
fn library(a: &Operand<'_>, b: &Operand<'_>, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    let rank = out.shape().len();
    let (m, n) = (out.shape()[rank - 2], out.shape()[rank - 1]);
    let k = a.shape()[rank - 1];
    let batch = &out.shape()[..rank - 2];
    let a = side(a, m, k, e)?;
    let b = side(b, k, n, e)?;
    // Batch axes collapse into one where both operands step through them evenly; the others are looped over.
    let (inner, a_step, b_step) = inner_batch(batch, &a.batch, &b.batch);
    let count: usize = batch[..inner].iter().product();
    let size: usize = batch[inner..].iter().product();
    let gemm = Gemm {
        dtype: out.dtype,
        mnk: [m, n, k],
        batch: size,
        transposed: [a.transposed, b.transposed],
        leading: [a.leading, b.leading, n],
        batch_stride: [a_step, b_step, m * n],
    };
    let bytes = out.dtype.size();
    for i in 0..count {
        let at = |strides: &[isize]| {
            let mut rest = i;
            let mut offset = 0isize;
            for axis in (0..inner).rev() {
                offset += (rest % batch[axis]) as isize * strides[axis];
                rest /= batch[axis];
            }
            offset
        };
        let (pa, pb) = (shift(a.address, at(&a.batch), bytes), shift(b.address, at(&b.batch), bytes));
        e.gemm(gemm.clone(), pa, pb, out.address_at(i * size * m * n));
    }
    Ok(())
}

/// An address so many elements further.
fn shift(word: Word, elements: isize, bytes: usize) -> Word {
    let by = (elements * bytes as isize) as u64;
    match word {
        Word::Address { value, bytes } => Word::Address { value, bytes: bytes.wrapping_add(by) },
        Word::Scratch(at) => Word::Scratch(at.wrapping_add(by)),
        other => other,
    }
}

/// How the library reads an operand of `rows x columns` matrices, copied if it can't.
fn side(x: &Operand<'_>, rows: usize, columns: usize, e: &mut Encoding) -> Result<Side> {
    let rank = x.shape().len();
    let (batch, matrix) = x.strides().split_at(rank - 2);
    let batch: Vec<isize> = batch.iter().zip(x.shape()).map(|(&s, &n)| if n == 1 { 0 } else { s }).collect();
    // The library steps forwards only, and elements must lie at multiples of their size.
    let forward = batch.iter().all(|&s| s >= 0) && x.alignment as usize >= x.dtype.size().min(16);
    if forward && let Some((transposed, leading)) = stored(matrix, rows, columns) {
        return Ok(Side { address: x.address(), transposed, leading, batch });
    }
    let address = copy::to_scratch(x, e)?;
    let layout = Layout::contiguous(x.shape());
    let batch = layout.strides[..rank - 2].iter().zip(x.shape());
    let batch = batch.map(|(&s, &n)| if n == 1 { 0 } else { s }).collect();
    Ok(Side { address, transposed: false, leading: columns.max(1), batch })
}

/// Whether a matrix lies row-major or column-major, with its leading dimension.
fn stored(strides: &[isize], rows: usize, columns: usize) -> Option<(bool, usize)> {
    let (row, column) = (strides[0], strides[1]);
    let unit = |s: isize, n: usize| s == 1 || n == 1;
    let leading = |s: isize, n: usize, least: usize| {
        if n == 1 { Some(least.max(1)) } else { usize::try_from(s).ok().filter(|&s| s >= least.max(1)) }
    };
    if unit(column, columns)
        && let Some(l) = leading(row, rows, columns)
    {
        return Some((false, l));
    }
    if unit(row, rows)
        && let Some(l) = leading(column, columns, rows)
    {
        return Some((true, l));
    }
    None
}

/// The first of the batch axes that make one batch, and the steps of a and b in it.
fn inner_batch(batch: &[usize], a: &[isize], b: &[isize]) -> (usize, usize, usize) {
    let mut first = batch.len();
    let mut steps: Option<(isize, isize)> = None;
    let mut length = 1isize;
    for axis in (0..batch.len()).rev() {
        if batch[axis] == 1 {
            first = axis;
            continue;
        }
        match steps {
            None => steps = Some((a[axis], b[axis])),
            Some((x, y)) if a[axis] == x * length && b[axis] == y * length => {}
            Some(_) => break,
        }
        length *= batch[axis] as isize;
        first = axis;
    }
    let (x, y) = steps.unwrap_or((0, 0));
    (first, x as usize, y as usize)
}
