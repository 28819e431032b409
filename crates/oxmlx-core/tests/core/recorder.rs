//! A backend that computes nothing and remembers what it was asked for: what a test needs to see of binding,
//! donation and failure without any kernel. It stands in for the CPU of this test binary.

use oxmlx_core::Primitive;
use oxmlx_core::backend::{self, Address, Backend, Bindings, Bound, Event, Executable, Residency};
use oxmlx_core::plan::{Plan, Step};
use oxmlx_types::{Device, Dtype, Error, ErrorKind, Result, Scalar, Stream};
use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One call of `run`.
#[derive(Clone, Debug)]
pub struct Ran {
    pub plan: Arc<Plan>,
    pub params: Vec<u64>,
    /// Where the parameter block was.
    pub block: Address,
    pub values: Vec<Bound>,
}

impl Ran {
    /// Address of the first value that the last step writes.
    pub fn output(&self) -> Address {
        self.values[self.plan.steps.last().unwrap().outputs()[0] as usize].base
    }

    /// What the first input of the first step looks like.
    pub fn input(&self) -> &Bound {
        let step: &Step = &self.plan.steps[0];
        &self.values[step.inputs()[0] as usize]
    }
}

#[derive(Default)]
struct Notes {
    ran: Vec<Ran>,
    lowered: usize,
    fail: bool,
    slow: bool,
}

/// The backend.
#[derive(Default)]
pub struct Recorder(Mutex<Notes>);

struct Lowered(Arc<Plan>);

impl Executable for Lowered {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn bytes(&self) -> usize {
        64
    }
}

impl Residency for Recorder {
    fn allocate(&self, bytes: usize, _: Stream) -> Result<Address> {
        // The engine keeps freed blocks and a test is short: what it asks for is never given back.
        let block = vec![0u8; bytes + 64].leak();
        Ok(Address((block.as_mut_ptr() as usize).next_multiple_of(64)))
    }

    fn free(&self, _: Address, _: usize, _: Stream) {}

    fn total_memory(&self) -> usize {
        1 << 30
    }
}

impl Backend for Recorder {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn lower(&self, plan: &Arc<Plan>) -> Result<Arc<dyn Executable>> {
        self.0.lock().lowered += 1;
        Ok(Arc::new(Lowered(plan.clone())))
    }

    fn run(
        &self,
        executable: &dyn Executable,
        bindings: &Bindings<'_>,
        _stream: Stream,
        poll: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<dyn Event>>> {
        let plan = executable.as_any().downcast_ref::<Lowered>().unwrap().0.clone();
        let (fail, slow) = {
            let mut notes = self.0.lock();
            let block = Address(bindings.params.as_ptr() as usize);
            let (params, values) = (bindings.params.to_vec(), bindings.values.to_vec());
            notes.ran.push(Ran { plan, params, block, values });
            (notes.fail, notes.slow)
        };
        if slow {
            std::thread::sleep(Duration::from_millis(100));
        }
        poll()?;
        if fail { Err(Error::new(ErrorKind::Backend, "run", "told to fail")) } else { Ok(None) }
    }

    fn fold(&self, _: &Primitive, _: Dtype, _: &[Scalar]) -> Option<Scalar> {
        None
    }
}

fn recorder() -> &'static Arc<Recorder> {
    static RECORDER: OnceLock<Arc<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Arc::new(Recorder::default());
        backend::register(recorder.clone());
        recorder
    })
}

/// The recorder for one test: notes and the engine's counters belong to the process, so tests take turns.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    pub fn new() -> Session {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock();
        *recorder().0.lock() = Notes::default();
        oxmlx_core::plan::cache::clear();
        Session { _turn: turn }
    }

    /// The runs since this was last asked.
    pub fn ran(&self) -> Vec<Ran> {
        std::mem::take(&mut recorder().0.lock().ran)
    }

    /// The only run since this was last asked.
    pub fn only(&self) -> Ran {
        let mut all = self.ran();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Plans that were lowered since the session began.
    pub fn lowered(&self) -> usize {
        recorder().0.lock().lowered
    }

    /// Makes runs fail, or not any more.
    pub fn fail(&self, on: bool) {
        recorder().0.lock().fail = on;
    }

    /// Makes runs take 100 ms.
    pub fn slow(&self, on: bool) {
        recorder().0.lock().slow = on;
    }
}
