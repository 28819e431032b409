//! The engine's seam: how plans are lowered and run on the host's processor, and where its memory comes from.

use crate::fused::{self, FusedKernel};
use crate::view::{View, ViewMut};
use crate::{elementwise, structured};
use oxmlx_core::Primitive;
use oxmlx_core::backend::{Address, Backend, Bindings, Bound, Event, Executable, Residency};
use oxmlx_core::plan::{Plan, Step, ValueId};
use oxmlx_types::{Device, Dtype, Error, ErrorKind, Result, Scalar, Stream};
use smallvec::SmallVec;
use std::alloc::Layout;
use std::any::Any;
use std::sync::Arc;

/// Alignment of every allocation: a cache line, and the widest vector.
const ALIGN: usize = 64;

/// The host's processor as a device.
#[derive(Default)]
pub struct Cpu {}

impl Cpu {
    /// The one processor that there is.
    pub fn new() -> Cpu {
        Cpu {}
    }
}

/// A lowered plan: groups are compiled, the rest is looked up at run time.
struct Lowered {
    plan: Arc<Plan>,
    /// Per step: the group's kernel, if it is one.
    kernels: Vec<Option<FusedKernel>>,
}

impl Executable for Lowered {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn bytes(&self) -> usize {
        let groups: usize = self.kernels.iter().flatten().map(FusedKernel::bytes).sum();
        groups + self.kernels.len() * size_of::<Option<FusedKernel>>()
    }
}

impl Residency for Cpu {
    fn allocate(&self, bytes: usize, _stream: Stream) -> Result<Address> {
        let refused =
            || Error::new(ErrorKind::OutOfMemory, "malloc", format!("The system has no {bytes} bytes."));
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).map_err(|_| refused())?;
        // SAFETY: the size is not zero.
        let p = unsafe { std::alloc::alloc(layout) };
        if p.is_null() { Err(refused()) } else { Ok(Address(p as usize)) }
    }

    fn free(&self, address: Address, bytes: usize, _stream: Stream) {
        if let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGN) {
            // SAFETY: the address came from `allocate` with the same number of bytes.
            unsafe { std::alloc::dealloc(address.0 as *mut u8, layout) }
        }
    }

    fn total_memory(&self) -> usize {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = info
            .lines()
            .find_map(|l| l.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse::<usize>().ok());
        kib.map_or(usize::MAX / 2, |k| k << 10)
    }
}

impl Backend for Cpu {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn lower(&self, plan: &Arc<Plan>) -> Result<Arc<dyn Executable>> {
        let kernels = plan
            .steps
            .iter()
            .map(|s| match s {
                Step::Group(g) => fused::lower(g).map(Some),
                Step::Op { .. } | Step::Reduce { .. } => Ok(None),
            })
            .collect::<Result<_>>()?;
        Ok(Arc::new(Lowered { plan: plan.clone(), kernels }))
    }

    fn run(
        &self,
        executable: &dyn Executable,
        bindings: &Bindings<'_>,
        _stream: Stream,
        poll: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<dyn Event>>> {
        let Some(lowered) = executable.as_any().downcast_ref::<Lowered>() else {
            return Err(Error::new(ErrorKind::Backend, "run", "the executable belongs to another backend"));
        };
        let mut first = true;
        for i in 0..lowered.plan.steps.len() {
            if !std::mem::take(&mut first) {
                poll()?;
            }
            lowered.step(i, bindings, poll)?;
        }
        Ok(None)
    }

    fn fold(&self, op: &Primitive, out: Dtype, operands: &[Scalar]) -> Option<Scalar> {
        elementwise::fold(op, out, operands)
    }
}

impl Lowered {
    fn step(&self, i: usize, bindings: &Bindings<'_>, poll: &dyn Fn() -> Result<()>) -> Result<()> {
        let values = bindings.values;
        match (&self.plan.steps[i], &self.kernels[i]) {
            // SAFETY: the binder gave every operand and result a buffer that outlives the run; a result
            // shares an operand's memory only where the plan found layout and size equal.
            (Step::Group(_), Some(kernel)) => unsafe { kernel.run(values, poll) },
            (Step::Group(_), None) => Err(Error::new(ErrorKind::Backend, "run", "a group without a kernel")),
            (Step::Op { op, inputs, out, params }, _) => {
                let views: SmallVec<[View<'_>; 4]> = inputs.iter().map(|&v| self.view(values, v)).collect();
                structured::run(
                    op,
                    &views,
                    &mut self.view_mut(values, *out),
                    &bindings.params[*params as usize..],
                    poll,
                )
            }
            (Step::Reduce { op, axes, input, out }, _) => structured::reduce(
                *op,
                axes,
                &self.view(values, *input),
                &mut self.view_mut(values, *out),
                poll,
            ),
        }
    }

    fn view<'a>(&self, values: &'a [Bound], v: ValueId) -> View<'a> {
        let b = &values[v as usize];
        View { ptr: b.base.0 as *const u8, dtype: self.plan.dtypes[v as usize], layout: &b.layout }
    }

    fn view_mut<'a>(&self, values: &'a [Bound], v: ValueId) -> ViewMut<'a> {
        let b = &values[v as usize];
        ViewMut { ptr: b.base.0 as *mut u8, dtype: self.plan.dtypes[v as usize], layout: &b.layout }
    }
}
