//! Random words: Threefry-2x32, in the order in which MLX draws them, bit for bit.
//!
//! `n` words of a key come from `ceil(n / 2)` blocks: block i gives word i and word `i + half`, so that both
//! halves of the output are written in one streaming loop that vectorises.

use crate::par::{Poll, Shared, for_parts};
use crate::simd::vectorized;
use crate::view::{View, ViewMut, row_major};
use oxmlx_core::ops::random::threefry;
use oxmlx_types::{Dtype, Error, Result};

vectorized! {
    /// Blocks `first..first + n` of a key whose second words lie `gap` words after the first ones.
    ///
    /// # Safety
    /// `low..low+n` and `high..high+n` must be writable and disjoint.
    unsafe fn blocks(low: *mut u32, high: *mut u32, n: usize, key: [u32; 2], first: u32, gap: u32) {
        for i in 0..n {
            let c = first.wrapping_add(i as u32);
            let [a, b] = threefry(key, [c, c.wrapping_add(gap)]);
            // SAFETY: the caller's promise.
            unsafe {
                *low.add(i) = a;
                *high.add(i) = b;
            }
        }
    }
}

/// Random words (or bytes of words) for each key of `keys: [K.., 2]`; the output is `[K.., S..]`.
pub fn random_bits(keys: &View<'_>, key_ndim: u8, out: &mut ViewMut<'_>, poll: Poll<'_>) -> Result<()> {
    if keys.dtype != Dtype::Uint32 {
        return Err(Error::new(
            oxmlx_types::ErrorKind::Type,
            "bits",
            format!("Expected key type uint32 but received {}.", keys.dtype),
        ));
    }
    let rank = key_ndim as usize;
    let count: usize = keys.shape()[..rank].iter().product();
    if out.size() == 0 {
        return Ok(());
    }
    let bytes = out.size() / count * out.dtype.size();
    let lead = row_major(&keys.shape()[..rank]);
    let key_of = |i: usize| {
        let mut at = 0isize;
        for a in 0..rank {
            at += (i / lead[a] as usize % keys.shape()[a]) as isize * keys.strides()[a];
        }
        let p = keys.origin::<u32>().wrapping_offset(at);
        // SAFETY: the key array's last axis has length 2.
        unsafe { [*p, *p.wrapping_offset(keys.strides()[rank])] }
    };
    let dst = Shared(out.origin::<u8>());
    // Whole words at an aligned place are written directly; the rest goes through a scratch of words.
    let direct = bytes.is_multiple_of(4) && (dst.get() as usize).is_multiple_of(4);
    if count == 1 {
        let key = key_of(0);
        return if direct {
            fill_words(Shared(dst.get().cast()), bytes / 4, key, poll)
        } else {
            fill_scratch(dst.get(), bytes, key, poll)
        };
    }
    let keys: Vec<[u32; 2]> = (0..count).map(key_of).collect();
    for_parts(count, (1usize << 16).div_ceil(bytes), poll, &|r| {
        for i in r {
            let at = dst.get().wrapping_add(i * bytes);
            // The calling thread polls; inside a task there is nothing to interrupt.
            let _ = if direct {
                fill_words_here(at.cast(), bytes / 4, keys[i]);
                Ok(())
            } else {
                fill_scratch(at, bytes, keys[i], &|| Ok(()))
            };
        }
    })
}

/// All words of one key, in parallel.
fn fill_words(dst: Shared<*mut u32>, n: usize, key: [u32; 2], poll: Poll<'_>) -> Result<()> {
    let (half, odd) = (n / 2, n % 2);
    let gap = half + odd;
    for_parts(half, 1 << 14, poll, &|r| {
        let low = dst.get().wrapping_add(r.start);
        // SAFETY: words r and gap + r of the n words, disjoint between parts.
        unsafe { blocks(low, low.add(gap), r.len(), key, r.start as u32, gap as u32) }
    })?;
    middle(dst.get(), half, odd, key);
    Ok(())
}

/// All words of one key, by the calling thread.
fn fill_words_here(dst: *mut u32, n: usize, key: [u32; 2]) {
    let (half, odd) = (n / 2, n % 2);
    // SAFETY: words 0..half and half+odd..n of the n words at dst.
    unsafe { blocks(dst, dst.add(half + odd), half, key, 0, (half + odd) as u32) };
    middle(dst, half, odd, key);
}

/// The word in the middle of an odd count.
fn middle(dst: *mut u32, half: usize, odd: usize, key: [u32; 2]) {
    if odd == 1 {
        // SAFETY: word `half` of `2 * half + 1`.
        unsafe { *dst.add(half) = threefry(key, [half as u32, 0])[0] };
    }
}

/// The first `bytes` bytes of the words that cover them.
fn fill_scratch(dst: *mut u8, bytes: usize, key: [u32; 2], poll: Poll<'_>) -> Result<()> {
    let mut words = vec![0u32; bytes.div_ceil(4)];
    let n = words.len();
    fill_words(Shared(words.as_mut_ptr()), n, key, poll)?;
    words.iter_mut().for_each(|w| *w = w.to_le());
    // SAFETY: `bytes` bytes of the output; the scratch holds at least as many.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), dst, bytes) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, ok};

    fn words(n: usize, seed: u64) -> Vec<u32> {
        let keys = Owned::from_f64(Dtype::Uint32, &[2], &[(seed >> 32) as f64, (seed & 0xffff_ffff) as f64]);
        let mut out = Owned::zeros(Dtype::Uint32, &[n]);
        random_bits(&keys.view(), 0, &mut out.view_mut(), &ok).unwrap();
        out.to_vec().into_iter().map(|v| v as u32).collect()
    }

    #[test]
    fn known_words() {
        assert_eq!(words(1, 0), [1797259609]);
        assert_eq!(words(2, 0), [928981903, 3453687069]);
        assert_eq!(words(3, 0), [4146024105, 1351547692, 2718843009]);
        assert_eq!(words(4, 0), [4146024105, 967050713, 2718843009, 1272950319]);
        assert_eq!(words(5, 0), [2467461003, 428148500, 1688610540, 3840466878, 2562233961]);
        assert_eq!(words(0, 0), []);
    }

    #[test]
    fn long_odd_counts_match_the_definition() {
        let n = 100_001;
        let (got, k) = (words(n, 5), [0, 5]);
        for i in (0..n / 2).step_by(331) {
            let b = threefry(k, [i as u32, (i + n / 2 + 1) as u32]);
            assert_eq!([got[i], got[i + n / 2 + 1]], b);
        }
        assert_eq!(got[n / 2], threefry(k, [n as u32 / 2, 0])[0]);
    }

    #[test]
    fn narrow_outputs_are_bytes_of_words_and_keys_batch() {
        let keys = Owned::from_f64(Dtype::Uint32, &[3, 2], &[0., 0., 0., 9., 1., 2.]);
        for dtype in [Dtype::Uint8, Dtype::Uint16, Dtype::Uint32] {
            for n in [1, 3, 4, 7, 8] {
                let mut out = Owned::zeros(dtype, &[3, n]);
                random_bits(&keys.view(), 1, &mut out.view_mut(), &ok).unwrap();
                let bytes = n * dtype.size();
                for (row, seed) in [(0, 0), (1, 9), (2, 1 << 32 | 2)] {
                    let w: Vec<u8> =
                        words(bytes.div_ceil(4), seed).iter().flat_map(|w| w.to_le_bytes()).collect();
                    assert_eq!(&out.bytes()[row * bytes..(row + 1) * bytes], &w[..bytes]);
                }
            }
        }
    }
}
