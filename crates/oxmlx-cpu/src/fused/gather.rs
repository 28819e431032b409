//! Reading an operand block by block, whatever its layout.
//!
//! Axes are collapsed first, so that most operands are one dense run and are read in place. What is left is
//! copied into scratch memory, a block at a time: runs that are dense or constant, short patterns that
//! repeat (a bias along rows), or strided elements.

use oxmlx_types::Layout;
use smallvec::SmallVec;

/// An operand over a linear domain.
pub(super) struct Source {
    base: *const u8,
    size: usize,
    /// (length, stride in elements) from the outermost axis; empty for a single element.
    axes: SmallVec<[(usize, isize); 4]>,
}

/// Runs that are gathered at once where the operand lies across the domain: as many elements as a cache line
/// has, so that a line is fetched once and not once for each of its elements.
const WINDOW: usize = 16;
/// Windows larger than this would leave the second-level cache.
const WINDOW_BYTES: usize = 1 << 20;

/// A thread's copy of [`WINDOW`] runs of an operand that lies across the domain.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Room of `Source::window_bytes`.
    pub room: *mut u8,
    /// Which runs are there, or `usize::MAX`.
    pub number: usize,
}

impl Source {
    /// `base` is the first element of a layout that broadcasts to `shape`.
    pub fn new(base: *const u8, layout: &Layout, shape: &[usize], size: usize) -> Source {
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        let lead = shape.len() - layout.ndim();
        for (i, &n) in shape.iter().enumerate() {
            if n == 1 {
                continue;
            }
            let own = i >= lead && layout.shape[i - lead] != 1;
            let stride = if own { layout.strides[i - lead] } else { 0 };
            match axes.last_mut() {
                Some(last) if last.1 == stride * n as isize => *last = (last.0 * n, stride),
                _ => axes.push((n, stride)),
            }
        }
        Source { base, size, axes }
    }

    /// Whether elements lie in the order of the domain.
    pub fn is_dense(&self) -> bool {
        self.axes.is_empty() || self.axes.len() == 1 && self.axes[0].1 == 1
    }

    /// Elements from a run of a window to the next; padded, as powers of two share cache sets.
    fn pitch(&self) -> usize {
        self.axes.last().map_or(0, |a| a.0) + WINDOW
    }

    /// Bytes of a window, or 0 where the operand does not lie across the domain.
    pub fn window_bytes(&self) -> usize {
        let [.., (count, step), (len, stride)] = self.axes[..] else { return 0 };
        let across = step != 0 && stride.unsigned_abs() > step.unsigned_abs() && stride.unsigned_abs() > 1;
        let bytes = WINDOW * (len + WINDOW) * self.size;
        if across && count >= 4 && len >= WINDOW && bytes <= WINDOW_BYTES { bytes } else { 0 }
    }

    /// As `block`, by way of a window.
    ///
    /// # Safety
    /// As `block`; the window has room for `window_bytes`, which is not 0.
    pub unsafe fn block_by_window(
        &self,
        start: usize,
        n: usize,
        dst: *mut u8,
        window: &mut Window,
    ) -> *const u8 {
        let len = self.axes.last().map_or(1, |a| a.0);
        let mut done = 0;
        while done < n {
            let (run, within) = ((start + done) / len, (start + done) % len);
            if window.number != run / WINDOW {
                window.number = run / WINDOW;
                // SAFETY: the run lies within the domain, the room was made for a window.
                unsafe { self.fill(window) }
            }
            let at = window.room.wrapping_add(((run % WINDOW) * self.pitch() + within) * self.size);
            let piece = (len - within).min(n - done);
            if piece == n {
                return at;
            }
            // SAFETY: dst has room for n elements.
            unsafe { std::ptr::copy_nonoverlapping(at, dst.add(done * self.size), piece * self.size) }
            done += piece;
        }
        dst
    }

    unsafe fn fill(&self, window: &Window) {
        let inner = self.axes.len() - 1;
        let ((len, stride), (count, step)) = (self.axes[inner], self.axes[inner - 1]);
        let runs: usize = self.axes[..inner].iter().map(|a| a.0).product();
        let mut run = window.number * WINDOW;
        let end = (run + WINDOW).min(runs);
        while run < end {
            // Runs whose starts are `step` apart.
            let some = (count - run % count).min(end - run);
            let dst = window.room.wrapping_add((run % WINDOW) * self.pitch() * self.size);
            // SAFETY: the runs lie within the operand and the window.
            unsafe {
                let (src, pitch) = (self.row(run), self.pitch());
                match self.size {
                    1 => turn::<u8>(src, stride, step, dst, pitch, len, some),
                    2 => turn::<u16>(src, stride, step, dst, pitch, len, some),
                    4 => turn::<u32>(src, stride, step, dst, pitch, len, some),
                    _ => turn::<u64>(src, stride, step, dst, pitch, len, some),
                }
            }
            run += some;
        }
    }

    /// Elements `start .. start + n` of the domain, in place where they lie densely, else copied to `dst`.
    ///
    /// # Safety
    /// The range lies within the domain and `dst` has room for it (it may be null if the source is dense).
    pub unsafe fn block(&self, start: usize, n: usize, dst: *mut u8) -> *const u8 {
        if self.is_dense() {
            return self.base.wrapping_add(start * self.size);
        }
        if n == 0 {
            return dst;
        }
        let inner = self.axes.len() - 1;
        let (len, stride) = self.axes[inner];
        let within = start % len;
        // SAFETY: the caller's promise.
        unsafe {
            if within + n <= len && stride == 1 {
                return self.row(start / len).wrapping_add(within * self.size);
            }
            let outer = self.axes[0];
            let period: usize = self.axes[1..].iter().map(|a| a.0).product();
            if outer.1 == 0 && inner > 0 && period < n {
                self.copy(start, period, dst);
                repeat(dst, period * self.size, n * self.size);
            } else {
                self.copy(start, n, dst);
            }
        }
        dst
    }

    /// Address of the first element of inner run number `i`.
    fn row(&self, mut i: usize) -> *const u8 {
        let mut at = 0isize;
        for &(len, stride) in self.axes[..self.axes.len() - 1].iter().rev() {
            at += (i % len) as isize * stride;
            i /= len;
        }
        self.base.wrapping_offset(at * self.size as isize)
    }

    unsafe fn copy(&self, start: usize, n: usize, dst: *mut u8) {
        let inner = self.axes.len() - 1;
        let (len, stride) = self.axes[inner];
        let mut index: SmallVec<[usize; 4]> = smallvec::smallvec![0; self.axes.len()];
        let mut rest = start;
        let mut at = 0isize;
        for i in (0..=inner).rev() {
            index[i] = rest % self.axes[i].0;
            rest /= self.axes[i].0;
            at += index[i] as isize * self.axes[i].1;
        }
        let mut done = 0;
        while done < n {
            let run = (len - index[inner]).min(n - done);
            let src = self.base.wrapping_offset(at * self.size as isize);
            // SAFETY: the run lies within the operand and within dst.
            unsafe { copy_run(src, stride, dst.add(done * self.size), run, self.size) }
            done += run;
            at -= index[inner] as isize * stride;
            index[inner] = 0;
            for i in (0..inner).rev() {
                index[i] += 1;
                at += self.axes[i].1;
                if index[i] < self.axes[i].0 {
                    break;
                }
                at -= self.axes[i].1 * self.axes[i].0 as isize;
                index[i] = 0;
            }
        }
    }
}

/// Copies n elements that are `stride` elements apart.
unsafe fn copy_run(src: *const u8, stride: isize, dst: *mut u8, n: usize, size: usize) {
    // SAFETY: the caller promises both ranges; element addresses are aligned to the element's size.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(src, dst, n * size),
            (_, 1) => strided::<u8>(src, stride, dst, n),
            (_, 2) => strided::<u16>(src, stride, dst, n),
            (_, 4) => strided::<u32>(src, stride, dst, n),
            _ => strided::<u64>(src, stride, dst, n),
        }
    }
}

unsafe fn strided<T: Copy>(src: *const u8, stride: isize, dst: *mut u8, n: usize) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    // SAFETY: the caller promises both ranges. Unaligned, as complex elements are aligned to their parts.
    unsafe {
        if stride == 0 {
            let x = src.read_unaligned();
            for i in 0..n {
                dst.add(i).write_unaligned(x);
            }
        } else {
            for i in 0..n {
                dst.add(i).write_unaligned(src.offset(i as isize * stride).read_unaligned());
            }
        }
    }
}

/// `dst[j * pitch + i] = src[i * stride + j * step]` for i < len, j < runs <= WINDOW.
unsafe fn turn<T: Copy>(
    src: *const u8,
    stride: isize,
    step: isize,
    dst: *mut u8,
    pitch: usize,
    len: usize,
    runs: usize,
) {
    let (src, dst) = (src.cast::<T>(), dst.cast::<T>());
    let put = |i: usize, j: usize| {
        // SAFETY: the caller promises both ranges. Unaligned, as complex elements are aligned to their parts.
        unsafe {
            let x = src.offset(i as isize * stride + j as isize * step).read_unaligned();
            dst.add(j * pitch + i).write_unaligned(x);
        }
    };
    let whole = if runs == WINDOW { len / WINDOW * WINDOW } else { 0 };
    for i0 in (0..whole).step_by(WINDOW) {
        // Small squares: their lines stay in the first-level cache from both sides.
        for j in 0..WINDOW {
            for i in i0..i0 + WINDOW {
                put(i, j);
            }
        }
    }
    for i in whole..len {
        for j in 0..runs {
            put(i, j);
        }
    }
}

/// Repeats the first `period` bytes of dst until `bytes`.
pub(super) unsafe fn repeat(dst: *mut u8, period: usize, bytes: usize) {
    let mut have = period;
    while have < bytes {
        let more = have.min(bytes - have);
        // SAFETY: the caller promises `bytes` bytes; source and target do not overlap, as more <= have.
        unsafe { std::ptr::copy_nonoverlapping(dst, dst.add(have), more) };
        have += more;
    }
}

/// Writes each of `rows` elements `n` times.
pub(super) unsafe fn expand(src: *const u8, size: usize, rows: usize, n: usize, dst: *mut u8) {
    for r in 0..rows {
        // SAFETY: the caller promises `rows` elements and room for `rows * n`.
        unsafe { copy_run(src.add(r * size), 0, dst.add(r * n * size), n, size) }
    }
}
