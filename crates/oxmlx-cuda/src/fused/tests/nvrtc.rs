//! NVRTC, for tests: from `OXMLX_NVRTC=<path of libnvrtc>`. Its companion `libnvrtc-builtins` must be where the
//! dynamic loader looks.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Text,
}

fn nvrtc() -> Option<&'static Nvrtc> {
    static LIB: OnceLock<Option<Nvrtc>> = OnceLock::new();
    LIB.get_or_init(|| {
        let path = CString::new(std::env::var("OXMLX_NVRTC").ok().filter(|v| !v.is_empty())?).ok()?;
        // SAFETY: a library that the caller names; symbols have the types that NVRTC documents.
        unsafe {
            let lib = dlopen(path.as_ptr(), 2);
            let find = |name: &str| {
                let name = CString::new(name).unwrap();
                let p = dlsym(lib, name.as_ptr());
                assert!(!p.is_null(), "{name:?}");
                p
            };
            (!lib.is_null()).then(|| Nvrtc {
                create: std::mem::transmute::<*mut c_void, Create>(find("nvrtcCreateProgram")),
                compile: std::mem::transmute::<*mut c_void, Compile>(find("nvrtcCompileProgram")),
                log_size: std::mem::transmute::<*mut c_void, Size>(find("nvrtcGetProgramLogSize")),
                log: std::mem::transmute::<*mut c_void, Text>(find("nvrtcGetProgramLog")),
            })
        }
    })
    .as_ref()
}

/// Whether there is a compiler.
pub(super) fn present() -> bool {
    if nvrtc().is_none() {
        println!("skipped: OXMLX_NVRTC names no library");
    }
    nvrtc().is_some()
}

/// Compiles a text for sm_90; what the compiler says where it fails.
pub(super) fn compile(text: &str) -> Result<(), String> {
    let lib = nvrtc().unwrap();
    let c = |s: &str| CString::new(s).unwrap();
    let sources = oxmlx_kernels::SOURCES;
    let names: Vec<CString> = sources.iter().map(|s| c(s.0)).collect();
    let bodies: Vec<CString> = sources.iter().map(|s| c(s.1)).collect();
    let pointers = |v: &[CString]| v.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
    let options: Vec<CString> = ["-arch=sm_90", "-std=c++17", "--fmad=false"].map(c).into();
    let (text, file) = (c(text), c("fused.cu"));
    let (names, bodies, options) = (pointers(&names), pointers(&bodies), pointers(&options));
    // SAFETY: all strings outlive the calls.
    unsafe {
        let mut p: Program = std::ptr::null_mut();
        let n = names.len() as c_int;
        let made = (lib.create)(&mut p, text.as_ptr(), file.as_ptr(), n, bodies.as_ptr(), names.as_ptr());
        assert_eq!(made, 0);
        if (lib.compile)(p, options.len() as c_int, options.as_ptr()) == 0 {
            return Ok(());
        }
        let mut n = 0;
        (lib.log_size)(p, &mut n);
        let mut log = vec![0u8; n];
        (lib.log)(p, log.as_mut_ptr().cast());
        Err(String::from_utf8_lossy(&log).into_owned())
    }
}
