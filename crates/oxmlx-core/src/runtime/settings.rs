//! Switches from the environment, read once, and those that programs change at run time.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The environment's switches.
pub struct Settings {
    /// `OXMLX_EAGER=1`: every operation runs alone, at once, unfused.
    pub eager: bool,
    /// `OXMLX_CHECK_NANS=1`: a NaN in a result is an error that names the operation. Implies eager.
    pub check_nans: bool,
    /// `OXMLX_DUMP_PLAN=dir`: each new plan is written there as text.
    pub dump_plan: Option<PathBuf>,
    /// `OXMLX_MEMORY_LIMIT`: bytes, with an optional K, M, G or T.
    pub memory_limit: Option<usize>,
    /// `OXMLX_TRACE=file.json`: what is done is written there, with its times.
    pub trace: Option<PathBuf>,
    /// `OXMLX_POISON=1`: fresh and freed memory of devices is filled with NaNs.
    pub poison: bool,
    /// `OXMLX_DEVICE=cpu` or `gpu`: the default device; a GPU, where there is one, if it isn't set.
    pub device: Option<oxmlx_types::DeviceKind>,
    /// `OXMLX_PLAN_CACHE_LIMIT`: bytes that plans may hold.
    pub plan_cache_limit: usize,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static COMPILE_DISABLED: AtomicBool = AtomicBool::new(false);

/// The environment's switches.
pub fn get() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let on = |name: &str| std::env::var(name).is_ok_and(|v| !v.is_empty() && v != "0");
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let bytes = |name: &str| std::env::var(name).ok().and_then(|v| parse_bytes(&v));
        COMPILE_DISABLED.store(on("MLX_DISABLE_COMPILE"), Relaxed);
        Settings {
            eager: on("OXMLX_EAGER") || on("OXMLX_CHECK_NANS"),
            check_nans: on("OXMLX_CHECK_NANS"),
            dump_plan: path("OXMLX_DUMP_PLAN"),
            trace: path("OXMLX_TRACE"),
            memory_limit: bytes("OXMLX_MEMORY_LIMIT"),
            poison: on("OXMLX_POISON"),
            device: match std::env::var("OXMLX_DEVICE").unwrap_or_default().to_ascii_lowercase().as_str() {
                "cpu" => Some(oxmlx_types::DeviceKind::Cpu),
                "gpu" | "cuda" => Some(oxmlx_types::DeviceKind::Gpu),
                _ => None,
            },
            plan_cache_limit: bytes("OXMLX_PLAN_CACHE_LIMIT").unwrap_or(64 << 20),
        }
    })
}

/// Whether `compile` should call its function each time.
pub fn compile_disabled() -> bool {
    get();
    COMPILE_DISABLED.load(Relaxed)
}

/// Turns `compile` off or on for the process.
pub fn set_compile_disabled(disabled: bool) {
    get();
    COMPILE_DISABLED.store(disabled, Relaxed);
}

fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.trim().parse::<usize>().ok()?.checked_shl(shift)
}
