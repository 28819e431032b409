//! The kernels that write the parameter block and give the signal, and notes of what else is loaded.

use crate::driver::{Driver, Function};
use crate::record::{Grid, Kernel, Origin};
use oxmlx_types::Result;
use std::io::Write;

/// Words that one launch of a `put` kernel writes; a launch has 4 KiB of arguments everywhere, and 32 KiB from
/// Volta on.
pub(crate) const UNITS: [usize; 3] = [64, 480, 3968];
const NAMES: [&str; 3] = ["block_put_64", "block_put_480", "block_put_3968"];

/// One thread.
pub(crate) const ONE: Grid = Grid { blocks: [1, 1, 1], threads: 1, shared: 0 };

/// Which unit suits a block of so many words.
pub(crate) fn unit(words: usize) -> usize {
    UNITS.iter().position(|&u| words <= u).unwrap_or(UNITS.len() - 1)
}

/// The shape of a `put`'s launch.
pub(crate) fn put_grid(unit: usize) -> Grid {
    Grid { blocks: [1, 1, 1], threads: [64, 256, 1024][unit], shared: 0 }
}

/// The kernel that writes the parameter block.
pub(crate) fn put(driver: &dyn Driver, unit: usize) -> Result<Function> {
    driver.function(&*Kernel::symbol(NAMES[unit])?, 0)
}

/// The kernel that says that a run is done.
pub(crate) fn signal(driver: &dyn Driver) -> Result<Function> {
    driver.function(&*Kernel::symbol("block_signal")?, 0)
}

/// Whether a kernel among these may have to be compiled.
pub(crate) fn any_is_generated<'a>(mut kernels: impl Iterator<Item = &'a Kernel>) -> bool {
    kernels.any(|k| match &k.origin {
        Origin::Generated(_) => true,
        Origin::Symbol(s) => oxmlx_kernels::pack(s.file).is_none(),
    })
}

/// Writes a packed kernel's name to the file that `OXMLX_TRACE_KERNELS` names, for tests of completeness.
pub(crate) fn note(kernel: &Kernel) {
    static FILE: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    let file = FILE
        .get_or_init(|| std::env::var_os("OXMLX_TRACE_KERNELS").filter(|v| !v.is_empty()).map(Into::into));
    if let (Some(file), Origin::Symbol(symbol)) = (file, &kernel.origin)
        && let Ok(mut f) = std::fs::OpenOptions::new().create(true).append(true).open(file)
    {
        let _ = writeln!(f, "{}", symbol.name);
    }
}
