//! Counters of what the engine did, for tests and for people: a claim like "a warm step plans nothing" is
//! asserted with these, never with a clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A process-wide count.
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }
    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }
    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $key:literal;)*) => {
        $($(#[$doc])* pub static $name: Counter = Counter::new();)*
        /// Every counter with its public name.
        pub fn all() -> Vec<(&'static str, u64)> {
            vec![$(($key, $name.get()),)*]
        }
    };
}

counters! {
    /// Nodes made.
    NODES "nodes";
    /// Programs run.
    PROGRAMS "programs";
    /// Nodes in Programs.
    PROGRAM_NODES "program_nodes";
    /// Programs whose structure had a plan.
    LEVEL1_HITS "level1_hits";
    /// Programs whose sizes had an entry, too.
    LEVEL2_HITS "level2_hits";
    /// Structures planned.
    PLANS "plans";
    /// Sizes worked out for a known structure.
    SIZINGS "sizings";
    /// Plans dropped to stay within the cache's limit.
    EVICTIONS "evictions";
    /// Executables made by backends.
    LOWERINGS "lowerings";
    /// Kernels run.
    KERNELS "kernels";
    /// Operations computed at once since the host knew their operands.
    FOLDED "folded";
    /// Buffers that an output took over from an input.
    DONATIONS "donations";
    /// Times that a thread waited for work on a stream.
    WAITS "waits";
    /// Kernels that were handed to a device one by one.
    LAUNCHES "direct_launches";
    /// Whole plans that were handed to a device as a graph.
    GRAPH_LAUNCHES "graph_launches";
    /// Graphs that were captured and instantiated.
    INSTANTIATIONS "instantiations";
    /// Kernels compiled while running.
    COMPILES "kernel_compiles";
    /// Kernels whose compiled code was found on disk.
    COMPILE_HITS "kernel_disk_hits";
    /// Plans encoded for a device, for layouts that had not been seen.
    ENCODINGS "encodings";
    /// Bytes copied from the host to devices.
    UPLOADED "uploaded_bytes";
    /// Bytes copied from devices to the host.
    DOWNLOADED "downloaded_bytes";
}
