//! Convolutions, channels last.

use crate::args::{IntList, array_like};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops::{self, ConvOptions};
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

fn list(v: Option<IntList>, default: i64) -> Vec<i64> {
    v.map_or_else(|| vec![default], |l| l.0)
}

fn fixed(
    a: &Any<'_>,
    w: &Any<'_>,
    [stride, padding, dilation]: [Option<IntList>; 3],
    groups: i64,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let padding = list(padding, 0);
    let options = ConvOptions {
        stride: list(stride, 1),
        padding_lo: padding.clone(),
        padding_hi: padding,
        kernel_dilation: list(dilation, 1),
        groups,
        ..ConvOptions::default()
    };
    ops::conv_general(&array_like(a)?, &array_like(w)?, &options).or_raise().map(PyArray::new)
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (input, weight, /, stride=None, padding=None, dilation=None, groups=1, *, stream=None))]
        fn $name(
            input: &Any<'_>,
            weight: &Any<'_>,
            stride: Option<IntList>,
            padding: Option<IntList>,
            dilation: Option<IntList>,
            groups: i64,
            stream: Option<StreamArg>,
        ) -> PyResult<PyArray> {
            fixed(input, weight, [stride, padding, dilation], groups, stream)
        }
    )*};
}

convolutions! {
    /// `[N, L, C] * [O, k, C / groups] -> [N, L', O]`.
    conv1d;
    /// `[N, H, W, C] * [O, kh, kw, C / groups] -> [N, H', W', O]`.
    conv2d;
    /// `[N, D, H, W, C] * [O, kd, kh, kw, C / groups] -> [N, D', H', W', O]`.
    conv3d;
}

/// Convolution in 1 to 3 dimensions with separate dilations of kernel and input, padding as one list or as
/// `(low, high)`, and an optional flip of the kernel.
#[pyfunction]
#[pyo3(signature = (input, weight, /, stride=None, padding=None, kernel_dilation=None, input_dilation=None, groups=1, flip=false, *, stream=None))]
#[allow(clippy::too_many_arguments)]
fn conv_general(
    input: &Any<'_>,
    weight: &Any<'_>,
    stride: Option<IntList>,
    padding: Option<&Any<'_>>,
    kernel_dilation: Option<IntList>,
    input_dilation: Option<IntList>,
    groups: i64,
    flip: bool,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (lo, hi) = match padding {
        None => (vec![0], vec![0]),
        Some(p) => match p.extract::<IntList>() {
            Ok(l) => (l.0.clone(), l.0),
            Err(_) => {
                let (lo, hi) = p.extract::<(IntList, IntList)>()?;
                (lo.0, hi.0)
            }
        },
    };
    let options = ConvOptions {
        stride: list(stride, 1),
        padding_lo: lo,
        padding_hi: hi,
        kernel_dilation: list(kernel_dilation, 1),
        input_dilation: list(input_dilation, 1),
        groups,
        flip,
    };
    ops::conv_general(&array_like(input)?, &array_like(weight)?, &options).or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(conv1d, m)?)?;
    m.add_function(wrap_pyfunction!(conv2d, m)?)?;
    m.add_function(wrap_pyfunction!(conv3d, m)?)?;
    m.add_function(wrap_pyfunction!(conv_general, m)?)
}
