//! Whether this thread is inside a transform. Nodes made then remember that they depend on the traced
//! arguments, keep their operands after an eval, and do not fold.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether a transform is running on this thread.
pub fn is_tracing() -> bool {
    DEPTH.with(|d| d.get() > 0)
}

/// While one of these lives, its thread is tracing.
pub struct Tracing(());

impl Tracing {
    /// Enters a transform.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Tracing {
        DEPTH.with(|d| d.set(d.get() + 1));
        Tracing(())
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get() - 1));
    }
}
