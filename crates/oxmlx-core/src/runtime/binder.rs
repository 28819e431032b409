//! Binding: what stands between a plan, which holds no sizes and no buffers, and one run of it.
//!
//! Everything is allocated and given an address before anything runs, so that a failed eval leaves its
//! arrays pending and its inputs as they were. A device's stream is put behind whatever brings its operands;
//! small operands that are on the host only go along with the launch. Arena addresses are added when the run begins, since the
//! arena may have to grow and belongs to whoever holds the stream.

use crate::array::Stored;
use crate::backend::{Address, Bound};
use crate::plan::{Arena, Home, Plan, ValueId, view_layout};
use crate::runtime::memory::{Buffer, INLINE};
use crate::runtime::program::{Program, Source};
use crate::runtime::stats;
use oxmlx_types::{Device, Error, Layout, Result};

/// Results of one element that a run copies to the host.
const MIRRORS: usize = 4;

/// Addresses, layouts and buffers of one run.
pub(crate) struct Binding {
    pub values: Vec<Bound>,
    /// Contents of the plan's outputs, in order.
    pub outputs: Vec<Stored>,
    /// Values whose base is an offset into the arena.
    in_arena: Vec<ValueId>,
    pub arena_bytes: usize,
    /// Leaves that the backend brings along.
    inline: Vec<(ValueId, Buffer)>,
    /// Small results with the host's copies of them.
    pub mirrors: Vec<(ValueId, Buffer)>,
    /// Results' own buffers.
    pub owned: Vec<Buffer>,
    /// Whether an input's buffer will be overwritten.
    pub donated: bool,
}

/// Gives every value of the plan a layout and a place.
pub(crate) fn bind(program: &Program, plan: &Plan, arena: &Arena) -> Result<Binding> {
    let mut b = Binding {
        values: Vec::with_capacity(plan.homes.len()),
        outputs: Vec::with_capacity(plan.outputs.len()),
        in_arena: Vec::new(),
        arena_bytes: arena.bytes,
        inline: Vec::new(),
        mirrors: Vec::new(),
        owned: Vec::new(),
        donated: false,
    };
    let owned = own_buffers(program, plan, &mut b)?;
    let remote = program.stream.device != Device::CPU;
    for (v, home) in plan.homes.iter().enumerate() {
        let bound = match (home, &program.defs[v]) {
            (Home::Leaf, Source::Leaf { stored, .. }) => {
                let base = if remote && stored.buffer.is_host() && stored.buffer.len() <= INLINE {
                    b.inline.push((v as ValueId, stored.buffer.clone()));
                    Address(0)
                } else {
                    stored.buffer.reach(program.stream)?
                };
                Bound { base, layout: stored.layout.clone() }
            }
            (Home::Param(word), _) => Bound {
                base: Address(program.params.as_ptr() as usize + 8 * *word as usize),
                layout: scalar(),
            },
            (Home::Arena(slot), _) => {
                b.in_arena.push(v as ValueId);
                Bound { base: Address(arena.offsets[*slot as usize]), layout: contiguous(program, v) }
            }
            (Home::Owned(k), _) => {
                Bound { base: owned[*k as usize].address(), layout: contiguous(program, v) }
            }
            // What lives in registers only has no layout, unless it gives a group its shape.
            (Home::Nowhere, _) if plan.domains.binary_search(&(v as ValueId)).is_err() => {
                Bound { base: Address(0), layout: Layout::default() }
            }
            // Views are bound below, when their bases are; the rest needs a shape only.
            _ => Bound { base: Address(0), layout: contiguous(program, v) },
        };
        b.values.push(bound);
    }
    for view in &plan.views {
        let base = b.values[view.input as usize].base;
        let (input, out) = (&b.values[view.input as usize].layout, &b.values[view.out as usize].layout);
        let layout = view_layout(&view.view, input, &out.shape, &program.params[view.params as usize..])
            .ok_or_else(|| {
                Error::new(oxmlx_types::ErrorKind::Backend, "bind", "a planned view is no view")
            })?;
        if matches!(root(plan, view.out), Root::Arena) {
            b.in_arena.push(view.out);
        }
        b.values[view.out as usize] = Bound { base, layout };
    }
    for (v, home) in plan.homes.iter().enumerate() {
        if let Home::Same(of) = home {
            b.values[v] = b.values[*of as usize].clone();
        }
    }
    for &v in &plan.outputs {
        let buffer = match root(plan, v) {
            Root::Owned(k) => owned[k as usize].clone(),
            Root::Leaf(l) => match &program.defs[l as usize] {
                Source::Leaf { stored, .. } => stored.buffer.clone(),
                _ => {
                    return Err(Error::new(
                        oxmlx_types::ErrorKind::Backend,
                        "bind",
                        "a leaf without contents",
                    ));
                }
            },
            Root::Arena | Root::Param => {
                return Err(Error::new(
                    oxmlx_types::ErrorKind::Backend,
                    "bind",
                    "an output in passing memory",
                ));
            }
        };
        b.outputs.push(Stored { buffer, layout: b.values[v as usize].layout.clone() });
    }
    if remote {
        mirror_scalars(program, plan, &owned, &mut b)?;
    }
    b.owned = owned;
    Ok(b)
}

/// A result of one element is likely to be read: a loss, an accuracy, a token. The run writes the host's copy
/// as well, so that reading it costs no copy and no second wait.
fn mirror_scalars(program: &Program, plan: &Plan, owned: &[Buffer], b: &mut Binding) -> Result<()> {
    for (buffer, &v) in owned.iter().zip(&plan.owned) {
        if b.mirrors.len() < MIRRORS && buffer.len() <= 8 && !buffer.is_empty() {
            let mirror = Buffer::pinned(program.stream.device, buffer.len())?;
            b.mirrors.push((v, mirror));
        }
    }
    Ok(())
}

impl Binding {
    /// Small leaves with their bytes.
    pub fn inline(&self) -> Vec<(ValueId, &[u8])> {
        self.inline.iter().map(|(v, buffer)| (*v, buffer.bytes())).collect()
    }

    /// Turns arena offsets into addresses; call once, with the arena that the run holds.
    pub fn place_arena(&mut self, base: Address) {
        for &v in &self.in_arena {
            self.values[v as usize].base.0 += base.0;
        }
    }
}

enum Root {
    Owned(u32),
    Leaf(ValueId),
    Param,
    Arena,
}

/// The value whose buffer `v` reads, in the end.
fn root(plan: &Plan, mut v: ValueId) -> Root {
    loop {
        match plan.homes[v as usize] {
            Home::ViewOf(of) | Home::Same(of) => v = of,
            Home::Owned(k) => return Root::Owned(k),
            Home::Leaf => return Root::Leaf(v),
            Home::Param(_) => return Root::Param,
            Home::Arena(_) | Home::Nowhere => return Root::Arena,
        }
    }
}

fn scalar() -> Layout {
    Layout::default()
}

fn contiguous(program: &Program, v: usize) -> Layout {
    Layout::contiguous(&program.shape(v as ValueId))
}

/// Buffers for the owned values: an input's where the plan allows it and nobody else can tell.
fn own_buffers(program: &Program, plan: &Plan, b: &mut Binding) -> Result<Vec<Buffer>> {
    let mut taken: Vec<Option<Buffer>> = vec![None; plan.owned.len()];
    // A device's kernels refuse nothing: they clamp indices.
    if !plan.fallible || program.stream.device != Device::CPU {
        let mut given: Vec<ValueId> = Vec::new();
        for &(leaf, out) in &plan.aliases {
            let Home::Owned(k) = plan.homes[out as usize] else { continue };
            if taken[k as usize].is_none()
                && !given.contains(&leaf)
                && program.may_donate(leaf, out)
                && let Source::Leaf { stored, .. } = &program.defs[leaf as usize]
            {
                taken[k as usize] = Some(stored.buffer.clone());
                given.push(leaf);
                b.donated = true;
                stats::DONATIONS.add(1);
            }
        }
    }
    let mut buffers = Vec::with_capacity(plan.owned.len());
    for (k, &v) in plan.owned.iter().enumerate() {
        buffers.push(match taken[k].take() {
            Some(buffer) => buffer,
            None => {
                let size: usize = program.shape(v).iter().product();
                Buffer::on(program.stream, size * plan.dtypes[v as usize].size())?
            }
        });
    }
    Ok(buffers)
}
