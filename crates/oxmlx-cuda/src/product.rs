//! Matrix products by kernels of our own: few rows against one large operand, and small ones.
//!
//! Sizes and steps are words of the record: a product that grows is the same launch. Which way is taken follows
//! from the dtype, the shape and the steps alone, so that a result's bits are the same in every run.

use crate::copy;
use crate::record::{Encoding, Operand, Word};
use crate::walk::{Dim, THREADS, Walk, common_unit, grid};
use oxmlx_types::{Dtype, Result};

/// Blocks that give every processor of a large device one; a goal, nothing depends on it.
const BUSY: usize = 132;
/// Multiply-adds up to which latency counts and not the library's rate.
const SMALL: usize = 1 << 24;
/// The same for products whose right operand stays in the cache.
const NARROW: usize = 1 << 28;

/// One operand: its address, the steps along its two axes, and those of the batch.
#[derive(Clone)]
struct Side {
    address: Word,
    alignment: usize,
    /// Step along rows (of the left operand) or columns (of the right one).
    step: isize,
    depth_step: isize,
    batch: Vec<isize>,
}

impl Side {
    /// How the operand is read, given its lengths: whether in packs, and whether these lie along the depth.
    fn reading(&self, size: usize, length: usize, depth: usize, lengths: &[usize]) -> (bool, bool) {
        let unit = |step: isize, n: usize| step == 1 || n == 1;
        let along = unit(self.depth_step, depth) && !(self.step == 1 && length > 1 && self.depth_step != 1)
            || !unit(self.step, length) && self.depth_step.unsigned_abs() <= self.step.unsigned_abs();
        let (inner, other) = if along { (self.depth_step, self.step) } else { (self.step, self.depth_step) };
        let others = self.batch.iter().zip(lengths).filter(|b| *b.1 > 1).map(|b| *b.0);
        let others = others.chain([if (if along { length } else { depth }) > 1 { other } else { 0 }]);
        let bytes = others.map(|s| s.unsigned_abs() * size);
        let packed = inner == 1 && common_unit(bytes.chain([self.alignment])) == 16;
        (packed, along)
    }
}

/// A batch of products, and where results go.
struct Product<'a> {
    dtype: Dtype,
    lengths: &'a [usize],
    rows: usize,
    columns: usize,
    depth: usize,
    left: Side,
    right: Side,
    /// Steps of the result along rows, columns and products.
    to: [usize; 3],
}

/// How many rows the kernels for few rows take.
fn most_rows(dtype: Dtype) -> usize {
    if matches!(dtype, Dtype::Float64 | Dtype::Complex64) { 4 } else { 8 }
}

/// Whether a product of this kind is ours and not the library's.
pub(crate) fn is_ours(dtype: Dtype, batch: usize, [m, n, k]: [usize; 3]) -> bool {
    if m.min(n) <= most_rows(dtype) {
        return true;
    }
    let work = [m, n, k].iter().fold(batch, |w, &x| w.saturating_mul(x));
    let small = if dtype == Dtype::Float32 { 2 * SMALL } else { SMALL };
    work <= small || (batch == 1 && m.min(n) <= 64 && k <= 128 && work <= NARROW)
}

/// `out = a @ b`, whatever steps the operands have; no length is zero.
pub(crate) fn encode(a: &Operand<'_>, b: &Operand<'_>, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
    let rank = out.shape().len();
    let (m, n) = (out.shape()[rank - 2], out.shape()[rank - 1]);
    let depth = a.shape()[rank - 1];
    let left = side(a, [rank - 2, rank - 1], e)?;
    let right = side(b, [rank - 1, rank - 2], e)?;
    let lengths = &out.shape()[..rank - 2];
    let most = most_rows(out.dtype);
    // Few columns are few rows of the transposed product.
    let turned = n <= most && (m > most || n < m);
    let product = if turned {
        Product {
            dtype: out.dtype,
            lengths,
            rows: n,
            columns: m,
            depth,
            left: right,
            right: left,
            to: [1, n, m * n],
        }
    } else {
        Product { dtype: out.dtype, lengths, rows: m, columns: n, depth, left, right, to: [n, 1, m * n] }
    };
    if product.rows <= most { product.few(out, e) } else { product.tiles(out, e) }
}

/// An operand's axes: its own (rows or columns) and the depth. What isn't aligned to its elements is copied.
fn side(x: &Operand<'_>, [own, depth]: [usize; 2], e: &mut Encoding) -> Result<Side> {
    let rank = x.shape().len();
    let of = |address, alignment, strides: &[isize]| Side {
        address,
        alignment,
        step: strides[own],
        depth_step: strides[depth],
        batch: strides[..rank - 2].to_vec(),
    };
    let alignment = x.alignment.max(1) as usize;
    if alignment >= x.dtype.size() {
        return Ok(of(x.address(), alignment, x.strides()));
    }
    let strides = oxmlx_types::contiguous_strides(x.shape());
    Ok(of(copy::to_scratch(x, e)?, 16, &strides))
}

/// What a kernel is to do beside the sizes.
struct Way {
    symbol: String,
    /// Depth of a chunk, and chunks.
    cut: (usize, usize),
    shift: u32,
    /// Tiles along columns and along rows.
    tiles: [usize; 2],
    blocks: usize,
}

impl Product<'_> {
    fn batch(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Elements of a pack.
    fn pack(&self) -> usize {
        16 / self.dtype.size()
    }

    fn few(&self, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
        let rows = match (most_rows(self.dtype), self.rows) {
            (4, _) => 4,
            (_, 1) => 1,
            (_, 2..=4) => 4,
            _ => 8,
        };
        let (_, along) = self.right.reading(self.dtype.size(), self.columns, self.depth, self.lengths);
        let way = if along { self.dots(rows) } else { self.lines(rows) };
        self.launch(&way, out, e)
    }

    /// Lanes along the depth.
    fn dots(&self, rows: usize) -> Way {
        // As many as the kernel takes at a time.
        let (batch, groups) = (self.batch(), self.columns.div_ceil(if rows == 8 { 2 } else { 4 }));
        let packs = self.depth.div_ceil(self.pack()).next_power_of_two();
        let mut lanes = packs.min(32);
        while lanes < THREADS && lanes < packs && batch * groups * lanes < BUSY * 1024 {
            lanes *= 2;
        }
        let blocks = (batch * groups * lanes).div_ceil(THREADS);
        // Few results of a great depth: the depth is cut, so that all processors read.
        let each = packs.div_ceil(THREADS);
        let cut = if lanes == THREADS && blocks < BUSY / 2 && each > 8 {
            self.cut((4 * BUSY).div_ceil(blocks).min(each / 4), self.pack())
        } else {
            (self.depth, 1)
        };
        Way {
            symbol: format!("product_dots_{}_{rows}", self.dtype),
            cut,
            shift: lanes.trailing_zeros(),
            tiles: [groups, 1],
            blocks: (batch * groups * cut.1 * lanes).div_ceil(THREADS),
        }
    }

    /// Lanes along the columns.
    fn lines(&self, rows: usize) -> Way {
        let (batch, units) = (self.batch(), self.columns.div_ceil(self.pack()));
        let mut lanes = units.min(32).next_power_of_two();
        // Whole lines of memory where there is much to read, more blocks where there is little.
        let least = if self.depth <= 2048 { 4 } else { 8 };
        while lanes > least && batch * units.div_ceil(lanes) < BUSY {
            lanes /= 2;
        }
        let tiles = units.div_ceil(lanes);
        let blocks = batch * tiles;
        let each = self.depth.div_ceil(THREADS / lanes);
        let cut = if each > 64 && blocks < 2 * BUSY {
            self.cut((8 * BUSY).div_ceil(blocks).min(each / 16), 1)
        } else {
            (self.depth, 1)
        };
        Way {
            symbol: format!("product_lines_{}_{rows}", self.dtype),
            cut,
            shift: lanes.trailing_zeros(),
            tiles: [tiles, 1],
            blocks: blocks * cut.1,
        }
    }

    fn tiles(&self, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
        let batch = self.batch();
        let count = |edge: usize| [self.columns.div_ceil(edge), self.rows.div_ceil(edge)];
        let blocks = |[x, y]: [usize; 2]| x * y * batch;
        let edge = if blocks(count(32)) >= BUSY { 32 } else { 16 };
        let tiles = count(edge);
        let all = blocks(tiles);
        let cut = if all < BUSY / 2 && self.depth >= 1024 {
            self.cut((2 * BUSY).div_ceil(all).min(self.depth / 256), 2048 / edge)
        } else {
            (self.depth, 1)
        };
        let symbol = format!("product_tiles_{}_{edge}", self.dtype);
        self.launch(&Way { symbol, cut, shift: 0, tiles, blocks: all * cut.1 }, out, e)
    }

    /// About so many chunks of the depth, each a multiple of the unit.
    fn cut(&self, chunks: usize, unit: usize) -> (usize, usize) {
        let chunk = self.depth.div_ceil(chunks.max(1)).next_multiple_of(unit);
        (chunk, self.depth.div_ceil(chunk))
    }

    fn launch(&self, way: &Way, out: &Operand<'_>, e: &mut Encoding) -> Result<()> {
        let size = self.dtype.size();
        let (batch, (chunk, chunks)) = (self.batch(), way.cut);
        let all = batch * self.rows * self.columns;
        let reading = |s: &Side, length| {
            let (packed, along) = s.reading(size, length, self.depth, self.lengths);
            Word::Const(u64::from(packed) | u64::from(along) << 1)
        };
        // A pack of the left operand lies along the depth; elsewhere elements are read one by one.
        let few = !way.symbol.starts_with("product_tiles");
        let left = match reading(&self.left, self.rows) {
            Word::Const(1) if few => Word::Const(0),
            other => other,
        };
        let accumulator = if size == 2 { 4 } else { size };
        let to = if chunks > 1 { e.scratch(chunks * all * accumulator) } else { out.address() };
        let dims = self.lengths.iter().enumerate();
        let walk = Walk::of(
            dims.map(|(axis, &len)| Dim { len, step: [self.left.batch[axis], self.right.batch[axis]] }),
        );
        let mut record = vec![
            to,
            self.left.address,
            self.right.address,
            Word::from(self.rows),
            Word::from(self.columns),
            Word::from(self.depth),
            Word::from(self.left.step),
            Word::from(self.left.depth_step),
            Word::from(self.right.depth_step),
            Word::from(self.right.step),
            Word::from(self.to[0]),
            Word::from(self.to[1]),
            Word::from(self.to[2]),
            Word::from(batch),
            Word::from(chunk),
            Word::from(chunks),
            left,
            reading(&self.right, self.columns),
            Word::from(way.shift as usize),
            Word::from(way.tiles[0]),
            Word::from(way.tiles[1]),
            Word::from(walk.dims.len()),
        ];
        record.extend(walk.words());
        e.launch(&way.symbol, grid(way.blocks), &record)?;
        if chunks == 1 {
            return Ok(());
        }
        let record = [
            out.address(),
            to,
            Word::from(self.rows),
            Word::from(self.columns),
            Word::from(all),
            Word::from(chunks),
            Word::from(self.to[0]),
            Word::from(self.to[1]),
            Word::from(self.to[2]),
        ];
        e.launch(&format!("product_finish_{}", self.dtype), grid(all.div_ceil(THREADS)), &record)
    }
}

#[cfg(test)]
mod tests {
    use crate::matmul;
    use crate::record::{Call, Encoding, Grid, Operand};
    use oxmlx_types::{Dtype, Layout};

    /// The launches of `[m, k] x [k, n]`, right transposed or not; `None` is the library's.
    fn launches([m, n, k]: [usize; 3], turned: bool, dtype: Dtype) -> Vec<Option<(String, Grid)>> {
        let right =
            if turned { Layout::contiguous(&[n, k]).permute(&[1, 0]) } else { Layout::contiguous(&[k, n]) };
        let layouts = [Layout::contiguous(&[m, k]), right, Layout::contiguous(&[m, n])];
        let operand =
            |i: usize| Operand { value: i as u32, dtype, layout: &layouts[i], alignment: 16, base: i };
        let mut e = Encoding::default();
        matmul::encode(&operand(0), &operand(1), &operand(2), &mut e).unwrap();
        let name = |c: &Call| match c {
            Call::Kernel { kernel, grid, .. } => Some((kernel.name.clone(), *grid)),
            Call::Gemm { .. } => None,
        };
        e.calls.iter().map(name).collect()
    }

    #[test]
    fn what_grows_a_little_keeps_its_launches() {
        let f32 = Dtype::Float32;
        assert_eq!(launches([1001, 64, 64], false, f32), launches([1020, 64, 64], false, f32));
        // Scores of a cache that grows, and its values.
        let half = Dtype::Bfloat16;
        assert_eq!(launches([4, 513, 64], true, half), launches([4, 540, 64], true, half));
        assert_eq!(launches([4, 64, 513], false, half), launches([4, 64, 540], false, half));
    }

    #[test]
    fn each_kind_has_its_kernel() {
        let name = |mnk, turned, dtype| {
            let first = launches(mnk, turned, dtype).swap_remove(0);
            first.map_or_else(String::new, |c| c.0)
        };
        let (f32, half, f64) = (Dtype::Float32, Dtype::Bfloat16, Dtype::Float64);
        assert_eq!(name([1, 128_256, 2048], true, half), "product_dots_bfloat16_1");
        assert_eq!(name([1, 2048, 2048], false, half), "product_lines_bfloat16_1");
        assert_eq!(name([1000, 1, 100], false, f32), "product_dots_float32_1");
        assert_eq!(name([256, 32, 784], true, f32), "product_tiles_float32_16");
        assert_eq!(name([4096, 64, 64], false, f32), "product_tiles_float32_32");
        assert_eq!(name([8, 8, 9000], false, f64), "product_tiles_float64_16");
        assert_eq!(name([4096, 4096, 4096], false, half), "");
    }
}
