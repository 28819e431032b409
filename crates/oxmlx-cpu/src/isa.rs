//! Instruction sets chosen at run time: one body, compiled three times.
//!
//! A wheel is built for plain x86-64, whose vectors are 16 bytes wide. The macro compiles a loop again for
//! AVX2 and AVX-512 and picks one when it is called, so that the compiler's own vectoriser does the rest.
//! All versions do the same operations in the same order wherever results are rounded.

/// Vector extensions, by their x86-64 level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Isa {
    /// Whatever the target guarantees.
    Base,
    /// AVX2 with FMA and half conversions.
    V3,
    /// AVX-512 F, BW, DQ, VL.
    V4,
}

/// The best extension of this processor.
#[inline]
pub(crate) fn isa() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        static BEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let v4 = v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if v4 {
                Isa::V4
            } else if v3 {
                Isa::V3
            } else {
                Isa::Base
            }
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    Isa::Base
}

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
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn v4 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { body $(::<$($T),+>)? ($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn v3 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { body $(::<$($T),+>)? ($($arg),*) }
                }
                match $crate::isa::isa() {
                    // SAFETY: the features were detected; the rest is the caller's promise.
                    $crate::isa::Isa::V4 => return unsafe { v4 $(::<$($T),+>)? ($($arg),*) },
                    // SAFETY: as above.
                    $crate::isa::Isa::V3 => return unsafe { v3 $(::<$($T),+>)? ($($arg),*) },
                    $crate::isa::Isa::Base => {}
                }
            }
            // SAFETY: the caller's promise, passed on.
            #[allow(unreachable_code)]
            unsafe { body $(::<$($T),+>)? ($($arg),*) }
        }
    };
}
pub(crate) use vectorized;
