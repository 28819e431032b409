//! Encodings run on the host, for tests: the kernels are compiled by g++ against a small imitation of a GPU,
//! and what they leave in memory is compared with what the CPU backend computes.
//!
//! Slow and exact: it finds wrong indices, missing elements and barriers that not all threads reach, without
//! a device. Where there is no g++, these tests pass without looking.

use crate::record::{Call, Encoding, Gemm, Grid, Operand, Origin, Word};
use oxmlx_types::{Dtype, Layout, Scalar};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;

mod against_cpu;

/// An array in emulated memory, with a margin on both sides that no kernel may touch.
#[derive(Clone)]
pub(crate) struct Array {
    words: Vec<u64>,
    pub dtype: Dtype,
    pub layout: Layout,
}

/// Words of a margin, and what they hold.
const MARGIN: usize = 8;
const CANARY: u64 = 0xdead_beef_cafe_f00d;

impl Array {
    /// An array whose elements are all ones in bits, so that a forgotten one is seen.
    pub(crate) fn unset(dtype: Dtype, shape: &[usize]) -> Array {
        let layout = Layout::contiguous(shape);
        let bytes = layout.size() * dtype.size();
        let mut words = vec![CANARY; bytes.div_ceil(16) * 2 + 2 * MARGIN + 2];
        let len = words.len();
        words[MARGIN..len - MARGIN].fill(u64::MAX);
        // The bytes after the last element are margin as well.
        let mut a = Array { words, dtype, layout };
        let (first, all) = (a.first(), a.bytes_mut());
        all[first + bytes..(len - MARGIN) * 8].fill(0xee);
        a
    }

    pub(crate) fn of(dtype: Dtype, shape: &[usize], value: impl Fn(usize) -> Scalar) -> Array {
        let mut a = Array::unset(dtype, shape);
        let (first, size) = (a.first(), dtype.size());
        for i in 0..a.layout.size() {
            let bits = value(i).bits.to_le_bytes();
            a.bytes_mut()[first + i * size..first + (i + 1) * size].copy_from_slice(&bits[..size]);
        }
        a
    }

    /// Pseudo-random values that every dtype holds exactly.
    pub(crate) fn noise(dtype: Dtype, shape: &[usize], seed: u64) -> Array {
        let value = |i: usize| {
            let mut s = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ (i as u64 + 7).wrapping_mul(0xff51_afd7_ed55_8ccd);
            s ^= s >> 33;
            s = s.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            s ^= s >> 29;
            let v = (s % 17) as f64 - 8.0;
            match dtype {
                Dtype::Bool => (v > 0.0) as u8 as f64,
                d if d.is_inexact() => v / 2.0,
                d if d.is_unsigned() => (v / 2.0).abs().floor(),
                _ => (v / 2.0).floor(),
            }
        };
        Array::of(dtype, shape, |i| Scalar::from_f64(value(i), dtype))
    }

    pub(crate) fn ints(dtype: Dtype, shape: &[usize], value: impl Fn(usize) -> i64) -> Array {
        Array::of(dtype, shape, |i| Scalar::from_i64(value(i), dtype))
    }

    pub(crate) fn with(&self, layout: Layout) -> Array {
        Array { layout, ..self.clone() }
    }

    pub(crate) fn permuted(&self, axes: &[usize]) -> Array {
        self.with(self.layout.permute(axes))
    }

    /// Byte of the buffer's first element: aligned to 16, after the margin.
    fn first(&self) -> usize {
        let base = self.words.as_ptr() as usize + MARGIN * 8;
        base.next_multiple_of(16) - self.words.as_ptr() as usize
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words' own memory.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast::<u8>(), self.words.len() * 8) }
    }

    /// Start of the buffer.
    pub(crate) fn base(&self) -> *const u8 {
        self.words.as_ptr().cast::<u8>().wrapping_add(self.first())
    }

    fn origin(&self) -> u64 {
        self.base() as u64 + (self.layout.offset * self.dtype.size()) as u64
    }

    /// Bytes of a contiguous array.
    pub(crate) fn bytes(&self) -> &[u8] {
        let n = self.layout.size() * self.dtype.size();
        // SAFETY: the words' own memory.
        unsafe { std::slice::from_raw_parts(self.base(), n) }
    }

    /// Whether what lies around the elements is untouched.
    fn margins_hold(&self) -> bool {
        let len = self.words.len();
        let from = self.first() + self.layout.size() * self.dtype.size();
        // SAFETY: the words' own memory.
        let all = unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), len * 8) };
        self.words[..MARGIN].iter().chain(&self.words[len - MARGIN..]).all(|&w| w == CANARY)
            && (from >= (len - MARGIN) * 8 || all[from..(len - MARGIN) * 8].iter().all(|&b| b == 0xee))
    }

    pub(crate) fn operand(&self, value: u32) -> Operand<'_> {
        Operand {
            value,
            dtype: self.dtype,
            layout: &self.layout,
            alignment: 1 << (self.origin() | 16).trailing_zeros(),
            base: self.origin() as usize,
        }
    }
}

type Function = unsafe extern "C" fn(*const u64);
type Emulate = unsafe extern "C" fn(Function, *const u64, *const u32, u32);

// SAFETY: the declarations of the C library.
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The loaded libraries by source text; and the lock that lets one kernel run at a time.
static LIBRARIES: Mutex<Option<FxHashMap<String, usize>>> = Mutex::new(None);

/// Whether there is a compiler for a processor that the imitation knows.
pub(crate) fn available() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let ask = || Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success());
    cfg!(target_arch = "x86_64") && *KNOWN.get_or_init(ask)
}

/// A folder for compiled kernels, under the build's own.
fn folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let dir = exe.ancestors().nth(2).unwrap().join("emulated");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The library of one file's symbols, compiled if it isn't there.
fn library(text: &str) -> usize {
    let mut libraries = LIBRARIES.lock();
    let libraries = libraries.get_or_insert_default();
    if let Some(&l) = libraries.get(text) {
        return l;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let kernels = root.join("../../kernels");
    let mut hash = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(text, &mut hash);
    std::hash::Hash::hash(include_str!("shim.h"), &mut hash);
    for (path, source) in oxmlx_kernels::SOURCES {
        std::hash::Hash::hash(&(path, source), &mut hash);
    }
    let stem = folder().join(format!("{:016x}", std::hash::Hasher::finish(&hash)));
    let (cpp, so) = (stem.with_extension("cpp"), stem.with_extension("so"));
    if !so.exists() {
        std::fs::write(&cpp, text).unwrap();
        let part = stem.with_extension(format!("{}", std::process::id()));
        let done = Command::new("g++")
            .args([
                "-std=c++17",
                "-O1",
                "-w",
                "-shared",
                "-fPIC",
                "-ffp-contract=off",
                "-fno-strict-aliasing",
            ])
            .arg(format!("-I{}", kernels.display()))
            .arg(format!("-I{}", root.join("src/emulate").display()))
            .arg(&cpp)
            .arg("-o")
            .arg(&part)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::rename(&part, &so).unwrap();
    }
    let name = CString::new(so.to_str().unwrap()).unwrap();
    // SAFETY: a library that was just compiled; it has no constructors but its own variables'.
    let handle = unsafe { dlopen(name.as_ptr(), 2) } as usize;
    assert_ne!(handle, 0, "{} does not load", so.display());
    libraries.insert(text.to_string(), handle);
    handle
}

fn find(library: usize, name: &str) -> *mut c_void {
    let c = CString::new(name).unwrap();
    // SAFETY: a handle of dlopen.
    let found = unsafe { dlsym(library as *mut c_void, c.as_ptr()) };
    assert!(!found.is_null(), "{name} is missing");
    found
}

/// Runs one kernel.
fn launch(origin: &Origin, name: &str, grid: Grid, record: &[u64]) {
    let text = match origin {
        Origin::Symbol(s) => {
            let all = oxmlx_kernels::symbols().into_iter().filter(|o| o.file == s.file);
            let lines: Vec<String> = all.map(|o| o.line).collect();
            format!("#include \"shim.h\"\n#include \"{}\"\n{}\n", s.file, lines.join("\n"))
        }
        Origin::Generated(text) => format!("#include \"shim.h\"\n{text}"),
    };
    let library = library(&text);
    let (kernel, emulate) = (find(library, name), find(library, "emulate"));
    let _one = LIBRARIES.lock();
    // SAFETY: the functions have these types; the record was encoded for this kernel.
    unsafe {
        let kernel: Function = std::mem::transmute(kernel);
        let emulate: Emulate = std::mem::transmute(emulate);
        emulate(kernel, record.as_ptr(), grid.blocks.as_ptr(), grid.threads);
    }
}

/// Runs an encoding over arrays, which are its values in order, the output last, and run-time words.
pub(crate) fn run(e: &Encoding, values: &[&Array], params: &[u64]) {
    let mut scratch = vec![u64::MAX; e.scratch.div_ceil(8) as usize + 32];
    let base = (scratch.as_mut_ptr() as u64).next_multiple_of(256);
    let words: Vec<u64> = (e.words.iter())
        .map(|w| match *w {
            Word::Const(c) => c,
            Word::Address { value, bytes } => values[value as usize].origin() + bytes,
            Word::Scratch(at) => base + at,
            Word::Param(i) => params[i as usize],
        })
        .collect();
    for call in &e.calls {
        match call {
            Call::Kernel { kernel, grid, record } => {
                launch(&kernel.origin, &kernel.name, *grid, &words[*record as usize..]);
            }
            Call::Gemm { gemm, record } => product(gemm, &words[*record as usize..][..3]),
        }
    }
    assert!(values.last().is_none_or(|out| out.margins_hold()), "written beyond the end");
}

/// A matrix product, naively.
fn product(g: &Gemm, words: &[u64]) {
    let size = g.dtype.size();
    let load = |base: u64, at: usize| {
        let mut bits = [0u8; 8];
        // SAFETY: an element of an operand, as the encoding says.
        unsafe {
            std::ptr::copy_nonoverlapping((base as usize + at * size) as *const u8, bits.as_mut_ptr(), size)
        };
        Scalar { dtype: g.dtype, bits: u64::from_le_bytes(bits) }.to_f64()
    };
    let [m, n, k] = g.mnk;
    for batch in 0..g.batch {
        for i in 0..m {
            for j in 0..n {
                let at = |row: usize, column: usize, which: usize| {
                    let [row, column] = if g.transposed[which] { [column, row] } else { [row, column] };
                    batch * g.batch_stride[which] + row * g.leading[which] + column
                };
                let sum: f64 =
                    (0..k).map(|p| load(words[0], at(i, p, 0)) * load(words[1], at(p, j, 1))).sum();
                let bits = Scalar::from_f64(sum, g.dtype).bits.to_le_bytes();
                let to = words[2] as usize + (batch * g.batch_stride[2] + i * g.leading[2] + j) * size;
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), to as *mut u8, size) };
            }
        }
    }
}
