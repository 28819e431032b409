//! Matrix products by cuBLASLt, with the library's choice of algorithm remembered for each kind of product.

use super::library::CUBLAS_LT;
use crate::record::Gemm;
use cudarc::cublaslt::sys as lt;
use cudarc::driver::sys::CUstream;
use oxmlx_types::{Dtype, Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// What is known of one kind of product.
struct Plan {
    operation: lt::cublasLtMatmulDesc_t,
    /// Of b, a and d: a row-major product is a column-major one of the operands in the other order.
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    algorithm: lt::cublasLtMatmulAlgo_t,
}

// SAFETY: descriptors that nobody changes once they are made.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

#[derive(Default)]
struct Known {
    handle: usize,
    plans: FxHashMap<(Gemm, [u8; 3]), Arc<Plan>>,
}

/// A device's products.
#[derive(Default)]
pub(super) struct Gemms(Mutex<Known>);

/// Kinds of product that are remembered, at most; then all are forgotten.
const MAX_PLANS: usize = 4096;

fn check(status: lt::cublasStatus_t, what: &str) -> Result<()> {
    if status == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Backend, "matmul", format!("{what}: cuBLASLt says {status:?}.")))
}

/// Whether float32 products may round their operands to TF32, as in MLX.
fn tf32() -> bool {
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ON.get_or_init(|| {
        let off = |name: &str| std::env::var(name).is_ok_and(|v| v == "0");
        !off("OXMLX_TF32") && !off("MLX_ENABLE_TF32")
    })
}

/// The types of elements, of accumulation and of scale.
fn types(dtype: Dtype) -> Option<(lt::cudaDataType, lt::cublasComputeType_t, lt::cudaDataType)> {
    use lt::cublasComputeType_t as C;
    use lt::cudaDataType as T;
    Some(match dtype {
        Dtype::Float32 if tf32() => (T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F_FAST_TF32, T::CUDA_R_32F),
        Dtype::Float32 => (T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
        Dtype::Float16 => (T::CUDA_R_16F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
        Dtype::Bfloat16 => (T::CUDA_R_16BF, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
        Dtype::Float64 => (T::CUDA_R_64F, C::CUBLAS_COMPUTE_64F, T::CUDA_R_64F),
        Dtype::Complex64 => (T::CUDA_C_32F, C::CUBLAS_COMPUTE_32F, T::CUDA_C_32F),
        _ => return None,
    })
}

/// One and zero in every type of scale: their first bytes.
static ONE_F32: [f32; 2] = [1.0, 0.0];
static ZERO: [f64; 2] = [0.0, 0.0];
static ONE_F64: [f64; 2] = [1.0, 0.0];

/// The largest power of two, 256 at most, that divides an address.
fn alignment(address: u64) -> u8 {
    address.trailing_zeros().min(8) as u8
}

impl Gemms {
    /// Starts a product.
    ///
    /// # Safety
    /// The addresses are valid for its operands until it has run; the calling thread's context is the device's.
    pub unsafe fn run(
        &self,
        gemm: &Gemm,
        addresses: [u64; 3],
        workspace: (u64, usize),
        stream: CUstream,
    ) -> Result<()> {
        let (handle, plan) = self.plan(gemm, addresses.map(alignment), workspace.1)?;
        let one: *const c_void = if gemm.dtype == Dtype::Float64 {
            (&raw const ONE_F64).cast()
        } else {
            (&raw const ONE_F32).cast()
        };
        let [a, b, d] = addresses;
        // SAFETY: the caller's promise; the descriptors belong to this product.
        let status = unsafe {
            lt::cublasLtMatmul(
                handle as lt::cublasLtHandle_t,
                plan.operation,
                one,
                b as *const c_void,
                plan.layouts[0],
                a as *const c_void,
                plan.layouts[1],
                (&raw const ZERO).cast(),
                d as *const c_void,
                plan.layouts[2],
                d as *mut c_void,
                plan.layouts[2],
                &plan.algorithm,
                workspace.0 as *mut c_void,
                workspace.1,
                stream.cast(),
            )
        };
        check(status, "A matrix product can't be started")
    }

    fn plan(&self, gemm: &Gemm, alignments: [u8; 3], workspace: usize) -> Result<(usize, Arc<Plan>)> {
        let mut known = self.0.lock();
        if known.handle == 0 {
            CUBLAS_LT.open()?;
            let mut handle = null_mut();
            // SAFETY: the library is open; the place is valid for writes.
            check(unsafe { lt::cublasLtCreate(&mut handle) }, "The library does not start")?;
            known.handle = handle as usize;
        }
        let key = (gemm.clone(), alignments);
        if let Some(plan) = known.plans.get(&key) {
            return Ok((known.handle, plan.clone()));
        }
        if known.plans.len() >= MAX_PLANS {
            known.plans.clear();
        }
        // SAFETY: the library has been started.
        let plan =
            Arc::new(unsafe { make(known.handle as lt::cublasLtHandle_t, gemm, alignments, workspace)? });
        known.plans.insert(key, plan.clone());
        Ok((known.handle, plan))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: made by `make`, destroyed once.
        unsafe {
            let _ = lt::cublasLtMatmulDescDestroy(self.operation);
            for layout in self.layouts {
                let _ = lt::cublasLtMatrixLayoutDestroy(layout);
            }
        }
    }
}

/// # Safety
/// The handle is the library's.
unsafe fn make(
    handle: lt::cublasLtHandle_t,
    gemm: &Gemm,
    alignments: [u8; 3],
    workspace: usize,
) -> Result<Plan> {
    let Some((element, compute, scale)) = types(gemm.dtype) else {
        return Err(super::context::unsupported("matrix products of this type"));
    };
    let algorithm = lt::cublasLtMatmulAlgo_t { data: [0; 8] };
    let mut plan = Plan { operation: null_mut(), layouts: [null_mut(); 3], algorithm };
    let [m, n, k] = gemm.mnk.map(|x| x as u64);
    let [ta, tb] = gemm.transposed;
    // In column-major terms: rows and columns as stored.
    let stored = |rows: u64, columns: u64, transposed: bool| {
        if transposed { (columns, rows) } else { (rows, columns) }
    };
    let shapes = [stored(n, k, tb), stored(k, m, ta), (n, m)];
    let (leading, strides) = (gemm.leading, gemm.batch_stride);
    let order = [1, 0, 2];
    // SAFETY: the caller's promise; every place is valid for writes of the size given.
    unsafe {
        check(
            lt::cublasLtMatmulDescCreate(&mut plan.operation, compute, scale),
            "A product can't be described",
        )?;
        for (which, transposed) in [
            (lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, tb),
            (lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB, ta),
        ] {
            let value: i32 = transposed as i32;
            let status =
                lt::cublasLtMatmulDescSetAttribute(plan.operation, which, (&raw const value).cast(), 4);
            check(status, "A product can't be described")?;
        }
        for (i, &at) in order.iter().enumerate() {
            let (rows, columns) = shapes[i];
            let layout = &mut plan.layouts[i];
            let status = lt::cublasLtMatrixLayoutCreate(layout, element, rows, columns, leading[at] as i64);
            check(status, "A matrix can't be described")?;
            use lt::cublasLtMatrixLayoutAttribute_t as L;
            let (count, stride) = (gemm.batch as i32, strides[at] as i64);
            let status = lt::cublasLtMatrixLayoutSetAttribute(
                *layout,
                L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                (&raw const count).cast(),
                4,
            );
            check(status, "A matrix can't be described")?;
            let status = lt::cublasLtMatrixLayoutSetAttribute(
                *layout,
                L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const stride).cast(),
                8,
            );
            check(status, "A matrix can't be described")?;
        }
        plan.algorithm = choose(handle, &plan, alignments, workspace)?;
    }
    Ok(plan)
}

/// The library's first choice.
///
/// # Safety
/// The handle and the descriptors are valid.
unsafe fn choose(
    handle: lt::cublasLtHandle_t,
    plan: &Plan,
    alignments: [u8; 3],
    workspace: usize,
) -> Result<lt::cublasLtMatmulAlgo_t> {
    use lt::cublasLtMatmulPreferenceAttributes_t as P;
    let mut preference = null_mut();
    // SAFETY: the caller's promise; places are valid for writes of the sizes given.
    unsafe {
        check(lt::cublasLtMatmulPreferenceCreate(&mut preference), "A preference can't be made")?;
        let bytes = workspace as u64;
        let limit = P::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let _ = lt::cublasLtMatmulPreferenceSetAttribute(preference, limit, (&raw const bytes).cast(), 8);
        let [a, b, d] = alignments.map(|log| 1u32 << log);
        for (which, value) in [
            (P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b),
            (P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a),
            (P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d),
            (P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
        ] {
            let _ = lt::cublasLtMatmulPreferenceSetAttribute(preference, which, (&raw const value).cast(), 4);
        }
        let mut results: [lt::cublasLtMatmulHeuristicResult_t; 1] = std::mem::zeroed();
        let mut found = 0;
        let status = lt::cublasLtMatmulAlgoGetHeuristic(
            handle,
            plan.operation,
            plan.layouts[0],
            plan.layouts[1],
            plan.layouts[2],
            plan.layouts[2],
            preference,
            1,
            results.as_mut_ptr(),
            &mut found,
        );
        let _ = lt::cublasLtMatmulPreferenceDestroy(preference);
        check(status, "No algorithm for a product")?;
        if found == 0 {
            return Err(Error::new(
                ErrorKind::Backend,
                "matmul",
                "cuBLASLt has no algorithm for this product.",
            ));
        }
        Ok(results[0].algo)
    }
}
