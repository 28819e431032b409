//! Whether this thread is inside a transform. Nodes made then remember that they depend on the traced
//! arguments, and an eval meanwhile leaves them their operands, since the transform comes back to them.

use crate::array::Node;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Transforms that are running on any thread.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
/// Evaluated nodes that still have their operands because a transform was running.
static RETAINED: Mutex<Vec<Weak<Node>>> = Mutex::new(Vec::new());

/// Whether a transform is running on this thread.
pub fn is_tracing() -> bool {
    DEPTH.with(|d| d.get() > 0)
}

/// Whether a transform is running anywhere: its nodes may be evaluated by any thread.
pub(crate) fn is_any_tracing() -> bool {
    ACTIVE.load(SeqCst) > 0
}

/// Notes a node whose operands can be let go when no transform is running any more.
pub(crate) fn retain(node: &Arc<Node>) {
    RETAINED.lock().push(Arc::downgrade(node));
}

/// While one of these lives, its thread is tracing.
pub struct Tracing(());

impl Tracing {
    /// Enters a transform.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Tracing {
        ACTIVE.fetch_add(1, SeqCst);
        DEPTH.with(|d| d.set(d.get() + 1));
        Tracing(())
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get() - 1));
        if ACTIVE.fetch_sub(1, SeqCst) == 1 {
            let retained = std::mem::take(&mut *RETAINED.lock());
            for node in retained.iter().filter_map(Weak::upgrade) {
                node.let_go();
            }
        }
    }
}
