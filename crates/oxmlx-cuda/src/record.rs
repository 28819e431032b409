//! What the encoders of op families write: calls, and the words of their records.
//!
//! An encoder is a pure function of operands' dtypes and layouts; addresses and immediates are symbolic
//! ([`Word`]) and are filled in for each run. So an encoding is kept and used again as long as layouts repeat,
//! and is tested without a device.

use oxmlx_core::plan::ValueId;
use oxmlx_kernels::Symbol;
use oxmlx_types::{Dtype, Error, ErrorKind, Layout, Result};
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// A word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The same in every run: a length, a stride, a flag.
    Const(u64),
    /// The address of a value's first element (its layout's offset counted in), and `bytes` more.
    Address {
        /// The value.
        value: ValueId,
        /// Added bytes.
        bytes: u64,
    },
    /// The address of this many bytes into the step's scratch memory.
    Scratch(u64),
    /// The run-time word with this number of the Program: an immediate's bits, a slice's start.
    Param(u32),
}

impl From<usize> for Word {
    fn from(n: usize) -> Word {
        Word::Const(n as u64)
    }
}

impl From<isize> for Word {
    fn from(n: isize) -> Word {
        Word::Const(n as u64)
    }
}

/// A kernel, from a pack or generated. Compared by identity of its name: equal names are equal code.
#[derive(Debug)]
pub struct Kernel {
    /// Its entry point.
    pub name: String,
    /// Where its code comes from.
    pub origin: Origin,
}

/// Where a kernel's code comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A symbol of `oxmlx-kernels`.
    Symbol(Symbol),
    /// Text that NVRTC compiles; its `#include`s name files of `kernels/`.
    Generated(String),
}

impl Kernel {
    /// A kernel whose code was generated.
    pub fn generated(name: String, text: String) -> Arc<Kernel> {
        Arc::new(Kernel { name, origin: Origin::Generated(text) })
    }

    /// The kernel of a symbol.
    ///
    /// # Errors
    /// Backend, where no family declares such a symbol: a bug.
    pub fn symbol(name: &str) -> Result<Arc<Kernel>> {
        static ALL: OnceLock<FxHashMap<String, Arc<Kernel>>> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let kernels = oxmlx_kernels::symbols().into_iter().map(|s| {
                let (name, origin) = (s.name.clone(), Origin::Symbol(s));
                (name.clone(), Arc::new(Kernel { name, origin }))
            });
            kernels.collect()
        });
        all.get(name)
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::Backend, "cuda", format!("There is no kernel {name}.")))
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block, along x.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Grid {
    /// Blocks along x only.
    pub fn line(blocks: usize, threads: u32) -> Grid {
        Grid { blocks: [blocks.clamp(1, i32::MAX as usize) as u32, 1, 1], threads, shared: 0 }
    }
}

/// A matrix product by the library, batched: `d = a @ b`, row-major operands with leading dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gemm {
    /// Element type of all three.
    pub dtype: Dtype,
    /// Rows of a and d, columns of b and d, columns of a.
    pub mnk: [usize; 3],
    /// Products.
    pub batch: usize,
    /// Whether a, b are stored transposed (column-major).
    pub transposed: [bool; 2],
    /// Elements between rows (columns, where transposed) of a, b and d.
    pub leading: [usize; 3],
    /// Elements between products of a, b and d; 0 repeats an operand.
    pub batch_stride: [usize; 3],
}

/// One thing that a stream does.
#[derive(Clone, Debug)]
pub enum Call {
    /// A kernel; its record begins at this word of the encoding.
    Kernel {
        /// Which.
        kernel: Arc<Kernel>,
        /// In which shape.
        grid: Grid,
        /// First word of its record.
        record: u32,
    },
    /// A matrix product; the addresses of a, b and d are three words from `record` on.
    Gemm {
        /// Which.
        gemm: Gemm,
        /// First of the three words.
        record: u32,
    },
}

/// What a plan, or a step of it, encodes to.
#[derive(Default, Debug)]
pub struct Encoding {
    /// Calls in order.
    pub calls: Vec<Call>,
    /// Records, one after the other.
    pub words: Vec<Word>,
    /// Bytes of scratch that the largest step needs.
    pub scratch: u64,
    /// Bytes of scratch that the current step has taken.
    step: u64,
}

impl Encoding {
    /// Begins the next step: scratch of the one before is free again.
    pub fn next_step(&mut self) {
        self.step = 0;
    }

    /// Scratch memory of this step, 256-byte aligned; its contents are whatever was there.
    pub fn scratch(&mut self, bytes: usize) -> Word {
        let at = self.step;
        self.step += (bytes as u64).next_multiple_of(256);
        self.scratch = self.scratch.max(self.step);
        Word::Scratch(at)
    }

    /// Launches a symbol of `oxmlx-kernels`.
    pub fn launch(&mut self, symbol: &str, grid: Grid, record: &[Word]) -> Result<()> {
        let kernel = Kernel::symbol(symbol)?;
        self.launch_kernel(kernel, grid, record);
        Ok(())
    }

    /// Launches a kernel.
    pub fn launch_kernel(&mut self, kernel: Arc<Kernel>, grid: Grid, record: &[Word]) {
        let at = self.words.len() as u32;
        self.words.extend_from_slice(record);
        self.calls.push(Call::Kernel { kernel, grid, record: at });
    }

    /// Adds a matrix product.
    pub fn gemm(&mut self, gemm: Gemm, a: Word, b: Word, d: Word) {
        let at = self.words.len() as u32;
        self.words.extend_from_slice(&[a, b, d]);
        self.calls.push(Call::Gemm { gemm, record: at });
    }
}

/// An operand or a result of a step, without its address.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Which value of the plan.
    pub value: ValueId,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, strides and offset in elements.
    pub layout: &'a Layout,
    /// The largest power of two, 16 at most, that divides the first element's address.
    pub alignment: u32,
    /// Identity of the buffer: operands with equal numbers begin at one address.
    pub base: usize,
}

impl Operand<'_> {
    /// Lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// Elements between neighbours along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.layout.strides
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.layout.size()
    }

    /// Address of the first element.
    pub fn address(&self) -> Word {
        Word::Address { value: self.value, bytes: 0 }
    }

    /// Address of the element at this offset, in elements, from the first one.
    pub fn address_at(&self, elements: usize) -> Word {
        Word::Address { value: self.value, bytes: (elements * self.dtype.size()) as u64 }
    }
}
