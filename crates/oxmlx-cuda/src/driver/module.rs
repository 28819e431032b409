//! Loading kernels: from a pack, where there is one for the device, else compiled from the sources.

use super::check::check;
use super::{Function, nvrtc};
use crate::record::{Kernel, Origin};
use cudarc::driver::sys;
use oxmlx_types::Result;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ffi::CString;
use std::ptr::null_mut;

/// What one device has loaded. Nothing is unloaded: code is small, and a graph may hold on to it.
#[derive(Default)]
pub(super) struct Modules {
    /// Packs by file; 0 for those that don't suit the device.
    packs: Mutex<FxHashMap<&'static str, usize>>,
    /// Functions by name, with the dynamic shared memory that they were prepared for.
    functions: Mutex<FxHashMap<String, (Function, u32)>>,
}

impl Modules {
    /// Whether a kernel has been loaded.
    pub fn is_loaded(&self, kernel: &Kernel) -> bool {
        self.functions.lock().contains_key(&kernel.name)
    }

    /// The function of a kernel; the calling thread's context is the device's.
    pub fn function(&self, kernel: &Kernel, shared: u32, architecture: u32) -> Result<Function> {
        let known = self.functions.lock().get(&kernel.name).copied();
        let function = match known {
            Some((function, prepared)) if shared <= prepared => return Ok(function),
            Some((function, _)) => function,
            None => self.load(kernel, architecture)?,
        };
        // More than 48 KiB has to be asked for.
        if shared > 48 << 10 {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was loaded in the current context.
            let status =
                unsafe { sys::cuFuncSetAttribute(function.0 as sys::CUfunction, attribute, shared as i32) };
            check(status, "A kernel needs more shared memory than the GPU has")?;
        }
        self.functions.lock().insert(kernel.name.clone(), (function, shared.max(48 << 10)));
        Ok(function)
    }

    fn load(&self, kernel: &Kernel, architecture: u32) -> Result<Function> {
        let text = match &kernel.origin {
            Origin::Generated(text) => text.clone(),
            Origin::Symbol(symbol) => {
                if let Some(module) = self.pack(symbol.file) {
                    return function_of(module, &kernel.name);
                }
                format!("#include \"{}\"\n{}\n", symbol.file, symbol.line)
            }
        };
        let code = nvrtc::compile(&kernel.name, &text, architecture)?;
        function_of(module_of(&code)?, &kernel.name)
    }

    /// A family's module, unless there is no pack or none that this device can run.
    fn pack(&self, file: &'static str) -> Option<usize> {
        let mut packs = self.packs.lock();
        let module = *packs
            .entry(file)
            .or_insert_with(|| oxmlx_kernels::pack(file).and_then(|p| module_of(p).ok()).unwrap_or_default());
        (module != 0).then_some(module)
    }
}

fn module_of(code: &[u8]) -> Result<usize> {
    let mut module = null_mut();
    // SAFETY: the code is a whole image, which the driver reads and checks.
    check(unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) }, "Kernels can't be loaded")?;
    Ok(module as usize)
}

fn function_of(module: usize, name: &str) -> Result<Function> {
    let c = CString::new(name).unwrap_or_default();
    let mut function = null_mut();
    // SAFETY: the module is loaded and the name ends in zero.
    let status = unsafe { sys::cuModuleGetFunction(&mut function, module as sys::CUmodule, c.as_ptr()) };
    check(status, &format!("The kernel {name} can't be found in its module"))?;
    Ok(Function(function as usize))
}
