//! Groups of a plan as generated kernels.
//!
//! A group is lowered once: its instructions become statements, and reductions divide them into phases. What
//! operands' layouts decide (vectors, strides, how a row is divided over threads) is known when a step is
//! encoded: only then is a kernel's text made, once for each form that occurs. Texts name functions of
//! `kernels/elementwise`, the ones that packed kernels use. Equal texts are one kernel in the whole process.

mod functors;
mod layout;
mod pointwise;
mod program;
mod row_modes;
mod row_text;
mod rows;
mod strided;
mod tiled;

use crate::record::{Encoding, Kernel, Operand};
use oxmlx_core::plan::{Group, ValueId};
use oxmlx_types::Result;
use parking_lot::Mutex;
use program::Program;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// A lowered group: everything that does not depend on layouts.
pub(crate) struct FusedKernel {
    program: Program,
    /// The kernels made so far, by form. There are few.
    pointwise: Mutex<Vec<(pointwise::Form, Arc<Kernel>)>>,
    rows: Mutex<Vec<(rows::Form, Arc<Kernel>)>>,
}

/// Lowers a group: an error where an operation has no function for its dtype.
pub(crate) fn lower(group: &Group) -> Result<FusedKernel> {
    Ok(FusedKernel { program: Program::new(group)?, pointwise: Mutex::default(), rows: Mutex::default() })
}

impl FusedKernel {
    /// Host bytes that the kernel holds, roughly; texts are shared and not counted.
    pub fn bytes(&self) -> usize {
        size_of::<FusedKernel>() + self.program.bytes()
    }

    /// Adds this group's launches. `operand` gives the operand of a value; of the domain only the shape counts.
    pub fn encode<'a>(&self, operand: &dyn Fn(ValueId) -> Operand<'a>, e: &mut Encoding) -> Result<()> {
        let p = &self.program;
        if p.row_axes > 0 {
            rows::encode(p, operand, e, |form| kernel_of(&self.rows, form, |f| row_text::text(p, f)));
        } else if let Some((form, grid, words)) = pointwise::plan(p, operand) {
            let kernel = kernel_of(&self.pointwise, form, |f| pointwise::text(p, f));
            e.launch_kernel(kernel, grid, &words);
        }
        Ok(())
    }
}

/// The kernel of a form: made on first sight, and shared with every group that has the same text.
fn kernel_of<F: PartialEq>(
    known: &Mutex<Vec<(F, Arc<Kernel>)>>,
    form: F,
    text: impl FnOnce(&F) -> String,
) -> Arc<Kernel> {
    let mut known = known.lock();
    if let Some((_, k)) = known.iter().find(|k| k.0 == form) {
        return k.clone();
    }
    let kernel = shared(text(&form));
    known.push((form, kernel.clone()));
    kernel
}

/// The one kernel of a text.
fn shared(text: String) -> Arc<Kernel> {
    static ALL: OnceLock<Mutex<FxHashMap<String, Arc<Kernel>>>> = OnceLock::new();
    let name = format!("fused_{:016x}", hash(text.as_bytes()));
    let mut all = ALL.get_or_init(Mutex::default).lock();
    if let Some(k) = all.get(&name) {
        return k.clone();
    }
    let kernel =
        Kernel::generated(name.clone(), text.replace("NAME(Record r)", &format!("{name}(Record r)")));
    all.insert(name, kernel.clone());
    kernel
}

/// FNV-1a: the same in every process, as compiled kernels are kept on disk by name.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests;
