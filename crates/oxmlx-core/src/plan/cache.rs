//! The plan cache: structure first, then sizes.
//!
//! Level 1 holds plans by structure, level 2 the arena of each set of sizes. When a structure has missed
//! level 2 twice in only some lengths, these become dynamic: they are rounded up to a bucket, and every
//! length of the bucket shares its entry. The cache is bounded in bytes; what was used longest ago goes first.

use super::{Arena, Graph, Plan, arena, dump, plan};
use crate::backend::{self, Executable};
use crate::runtime::program::Program;
use crate::runtime::{profile, settings, stats};
use oxmlx_types::{Device, Result};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const SHARDS: usize = 16;
/// Sets of sizes that one structure keeps.
const MAX_SIZINGS: usize = 64;

/// What a run needs of the cache.
pub(crate) struct Found {
    pub plan: Arc<Plan>,
    pub executable: Arc<dyn Executable>,
    pub arena: Arc<Arena>,
}

struct Entry {
    device: Device,
    graph: Graph,
    plan: Arc<Plan>,
    executable: Arc<dyn Executable>,
    bytes: usize,
    used: AtomicU64,
    sizings: Mutex<Vec<Sizing>>,
}

/// One set of sizes.
struct Sizing {
    /// Lengths by symbol; capacities where dynamic.
    dims: Box<[usize]>,
    /// Which lengths may be anything up to the capacity.
    dynamic: Option<Box<[bool]>>,
    arena: Arc<Arena>,
    used: u64,
}

type Shard = FxHashMap<u64, Vec<Arc<Entry>>>;

static CLOCK: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

fn shards() -> &'static [Mutex<Shard>; SHARDS] {
    static CACHE: std::sync::OnceLock<[Mutex<Shard>; SHARDS]> = std::sync::OnceLock::new();
    CACHE.get_or_init(|| std::array::from_fn(|_| Mutex::default()))
}

/// Host bytes that cached plans hold.
pub fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Number of cached structures.
pub fn entries() -> usize {
    shards().iter().map(|s| s.lock().values().map(Vec::len).sum::<usize>()).sum()
}

/// Forgets every plan.
pub fn clear() {
    for shard in shards() {
        let old = std::mem::take(&mut *shard.lock());
        let freed: usize = old.values().flatten().map(|e| e.bytes).sum();
        BYTES.fetch_sub(freed, Relaxed);
    }
}

/// The plan of a Program, made if it is new.
pub(crate) fn find(program: &Program) -> Result<Found> {
    let shard = &shards()[(program.hash >> 60) as usize % SHARDS];
    let known = shard.lock().get(&program.hash).and_then(|all| {
        all.iter().find(|e| e.device == program.stream.device && program.matches(&e.graph)).cloned()
    });
    let entry = match known {
        Some(entry) => {
            stats::LEVEL1_HITS.add(1);
            entry
        }
        None => {
            let entry = make(program)?;
            entry.used.store(CLOCK.fetch_add(1, Relaxed), Relaxed);
            shard.lock().entry(program.hash).or_default().push(entry.clone());
            if BYTES.fetch_add(entry.bytes, Relaxed) + entry.bytes > settings::get().plan_cache_limit {
                evict();
            }
            entry
        }
    };
    let now = CLOCK.fetch_add(1, Relaxed);
    entry.used.store(now, Relaxed);
    let arena = sizing(&entry, &program.dims, now);
    Ok(Found { plan: entry.plan.clone(), executable: entry.executable.clone(), arena })
}

fn make(program: &Program) -> Result<Arc<Entry>> {
    stats::PLANS.add(1);
    let span = profile::span("host", "plan").number("nodes", program.nodes.len());
    let graph = program.graph();
    let plan = Arc::new(plan(&graph));
    drop(span.text("steps", || plan.summary()));
    if let Some(dir) = &settings::get().dump_plan {
        dump::write(dir, program.hash, &graph, &plan);
    }
    let device = program.stream.device;
    let backend = backend::backend(device)?;
    stats::LOWERINGS.add(1);
    let _span = profile::span("host", "lower").number("steps", plan.steps.len());
    let executable = backend.lower(&plan)?;
    let bytes = 2 * graph.bytes() + executable.bytes() + size_of::<Entry>();
    Ok(Arc::new(Entry {
        device,
        graph,
        plan,
        executable,
        bytes,
        used: AtomicU64::new(0),
        sizings: Mutex::default(),
    }))
}

/// The arena for these lengths.
fn sizing(entry: &Entry, dims: &[usize], now: u64) -> Arc<Arena> {
    let mut all = entry.sizings.lock();
    if let Some(s) = all.iter_mut().find(|s| s.fits(dims)) {
        stats::LEVEL2_HITS.add(1);
        s.used = now;
        return s.arena.clone();
    }
    stats::SIZINGS.add(1);
    let dynamic = changing(&all, dims);
    let mut dims: Box<[usize]> = dims.into();
    if let Some(dynamic) = &dynamic {
        for (d, _) in dims.iter_mut().zip(dynamic).filter(|(_, dynamic)| **dynamic) {
            *d = bucket(*d);
        }
    }
    let arena = Arc::new(arena(&entry.graph, &entry.plan, &dims));
    if all.len() >= MAX_SIZINGS
        && let Some(oldest) = (0..all.len()).min_by_key(|&i| all[i].used)
    {
        all.swap_remove(oldest);
    }
    all.push(Sizing { dims, dynamic, arena: arena.clone(), used: now });
    arena
}

/// Which lengths differ from an earlier set of sizes, once a structure has missed more than once.
fn changing(all: &[Sizing], dims: &[usize]) -> Option<Box<[bool]>> {
    if all.len() < 2 {
        return None;
    }
    let mut changing: Box<[bool]> = vec![false; dims.len()].into();
    for s in all {
        for (i, &d) in dims.iter().enumerate() {
            changing[i] |= s.dims[i] != d;
        }
    }
    Some(changing)
}

/// Capacities grow by a quarter, so that at most a fifth of the arena is unused.
fn bucket(n: usize) -> usize {
    let step = (n.next_power_of_two() / 8).max(16);
    n.next_multiple_of(step)
}

impl Sizing {
    fn fits(&self, dims: &[usize]) -> bool {
        match &self.dynamic {
            None => *self.dims == *dims,
            Some(dynamic) => dims.iter().enumerate().all(|(i, &d)| {
                if dynamic[i] { d <= self.dims[i] && self.dims[i] == bucket(d) } else { d == self.dims[i] }
            }),
        }
    }
}

/// Drops what was used longest ago until a quarter of the limit is free.
fn evict() {
    let goal = settings::get().plan_cache_limit / 4 * 3;
    let mut ages: Vec<(u64, usize, u64)> = Vec::new();
    for (i, shard) in shards().iter().enumerate() {
        for (&hash, all) in shard.lock().iter() {
            ages.extend(all.iter().map(|e| (e.used.load(Relaxed), i, hash)));
        }
    }
    ages.sort_unstable();
    for (_, i, hash) in ages {
        if BYTES.load(Relaxed) <= goal {
            return;
        }
        let gone = shards()[i].lock().remove(&hash).unwrap_or_default();
        let freed: usize = gone.iter().map(|e| e.bytes).sum();
        BYTES.fetch_sub(freed, Relaxed);
        stats::EVICTIONS.add(gone.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_and_waste_little() {
        for n in 0..5000 {
            let b = bucket(n);
            assert!(b >= n && bucket(b) == b && b - n <= 16.max(n / 4), "{n} {b}");
        }
    }
}
