//! Attention and rotary positions of `mx.fast`.

use crate::args::array_like;
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops::{self, SdpaMask};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

/// softmax(scale * q k^T + mask) v for q `[B, H, Lq, D]`, k and v `[B, K, Lk, D]` with K dividing H. `mask` is
/// None, "causal", a bool array (true: look) or an array that is added.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, scale, mask=None, stream=None))]
fn scaled_dot_product_attention(
    q: &Any<'_>,
    k: &Any<'_>,
    v: &Any<'_>,
    scale: f64,
    mask: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (q, k, v) = (array_like(q)?, array_like(k)?, array_like(v)?);
    let array;
    let mask = match mask {
        None => SdpaMask::None,
        Some(m) => match m.extract::<&str>() {
            Ok("causal") => SdpaMask::Causal,
            Ok("") => SdpaMask::None,
            Ok(other) => {
                let text = format!(
                    "[scaled_dot_product_attention] Invalid mask '{other}': only 'causal' has a name."
                );
                return Err(PyValueError::new_err(text));
            }
            Err(_) => {
                array = array_like(m)?;
                SdpaMask::Array(&array)
            }
        },
    };
    ops::scaled_dot_product_attention(&q, &k, &v, scale, mask).or_raise().map(PyArray::new)
}

/// Rotary position embedding of the first `dims` features of `[.., L, D]` (Su et al. 2021, arXiv:2104.09864);
/// positions start at `offset`, a number or one per leading index.
#[pyfunction]
#[pyo3(signature = (a, /, dims, *, traditional, base, scale, offset, freqs=None, stream=None))]
#[allow(clippy::too_many_arguments)]
fn rope(
    a: &Any<'_>,
    dims: usize,
    traditional: bool,
    base: Option<f64>,
    scale: f64,
    offset: &Any<'_>,
    freqs: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let freqs = freqs.filter(|f| !f.is_none()).map(array_like).transpose()?;
    ops::rope(&array_like(a)?, dims, traditional, base, scale, &array_like(offset)?, freqs.as_ref())
        .or_raise()
        .map(PyArray::new)
}

/// Adds the family's part of `mx.fast`.
pub fn register_fast(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(scaled_dot_product_attention, m)?)?;
    m.add_function(wrap_pyfunction!(rope, m)?)
}
