//! Vector code for the processor at hand, from one portable source.
//!
//! Loop bodies are plain Rust, always inlined into thin functions that switch on an instruction set for
//! their body; the compiler vectorises each. Which set is used is decided once, at run time. All sets give
//! the same bits: nothing is contracted or reassociated, and a fused multiply-add is written as one.

pub mod math_f32;
pub mod wide;

use std::sync::OnceLock;

/// Instruction sets for which kernels exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Whatever the target triple promises.
    Base,
    /// AVX2 with fused multiply-add.
    V3,
    /// AVX-512.
    V4,
}

impl Isa {
    /// The name that people know.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Base => "baseline",
            Isa::V3 => "AVX2",
            Isa::V4 => "AVX-512",
        }
    }
}

/// The best set that this processor has; `OXMLX_CPU_ISA=base|v3|v4` asks for a lower one.
pub fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(|| {
        let best = detect();
        match std::env::var("OXMLX_CPU_ISA").as_deref() {
            Ok("base") => Isa::Base,
            Ok("v3") if best != Isa::Base => Isa::V3,
            _ => best,
        }
    })
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    match (v3, v4) {
        (_, true) => Isa::V4,
        (true, _) => Isa::V3,
        _ => Isa::Base,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Base
}

/// `dispatch! { name[Generics: Bounds](args: types) -> Ret = body }` defines `name`, which returns the pointer
/// to the instance of `body` for this processor. `body` is an `#[inline(always)]` unsafe function with the
/// same generics and arguments.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident [$($g:ident : $bound:path),*] ($($a:ident : $t:ty),*) -> $r:ty = $body:ident) => {
        $(#[$doc])*
        pub(crate) fn $name<$($g: $bound),*>() -> unsafe fn($($t),*) -> $r {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi1,bmi2,lzcnt")]
                unsafe fn v4<$($g: $bound),*>($($a: $t),*) -> $r {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { $body::<$($g),*>($($a),*) }
                }
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
                unsafe fn v3<$($g: $bound),*>($($a: $t),*) -> $r {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { $body::<$($g),*>($($a),*) }
                }
                match $crate::simd::isa() {
                    $crate::simd::Isa::V4 => return v4::<$($g),*>,
                    $crate::simd::Isa::V3 => return v3::<$($g),*>,
                    $crate::simd::Isa::Base => {}
                }
            }
            unsafe fn base<$($g: $bound),*>($($a: $t),*) -> $r {
                // SAFETY: the caller's promise, passed on.
                unsafe { $body::<$($g),*>($($a),*) }
            }
            base::<$($g),*>
        }
    };
}
pub(crate) use dispatch;

/// Declares a function that is compiled for each [`Isa`]. The body must be safe to run anywhere; what it
/// calls should be `#[inline(always)]`, else it stays at the base level.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident $(<$($T:ident : $bound:path),+>)? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            unsafe fn body $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,bmi1,bmi2,lzcnt")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn v4 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { body $(::<$($T),+>)? ($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn v3 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { body $(::<$($T),+>)? ($($arg),*) }
                }
                match $crate::simd::isa() {
                    // SAFETY: the features were detected; the rest is the caller's promise.
                    $crate::simd::Isa::V4 => return unsafe { v4 $(::<$($T),+>)? ($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Isa::V3 => return unsafe { v3 $(::<$($T),+>)? ($($arg),*) },
                    $crate::simd::Isa::Base => {}
                }
            }
            // SAFETY: the caller's promise, passed on.
            #[allow(unreachable_code)]
            unsafe { body $(::<$($T),+>)? ($($arg),*) }
        }
    };
}
pub(crate) use vectorized;
