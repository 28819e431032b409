//! Convolutions in one to three dimensions, channels last.

use crate::array::Array;
use crate::ops;
use crate::ops::shape::reshape_to;
use crate::primitive::{ConvGeometry, Op, Params, Primitive};
use crate::transforms::rules::App;
use oxmlx_types::{Dtype, Error, Result, Shape, format_shape};
use smallvec::{SmallVec, smallvec};

/// Parameters of [`conv_general`]; each list has one entry a spatial axis, or one for all.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ConvOptions {
    pub stride: Vec<i64>,
    pub padding_lo: Vec<i64>,
    pub padding_hi: Vec<i64>,
    pub kernel_dilation: Vec<i64>,
    pub input_dilation: Vec<i64>,
    pub groups: i64,
    pub flip: bool,
}

impl Default for ConvOptions {
    fn default() -> Self {
        ConvOptions {
            stride: vec![1],
            padding_lo: vec![0],
            padding_hi: vec![0],
            kernel_dilation: vec![1],
            input_dilation: vec![1],
            groups: 1,
            flip: false,
        }
    }
}

/// Convolution of `[N, spatial.., C]` with `[O, kernel.., C / groups]`, giving `[N, spatial.., O]`.
pub fn conv_general(input: &Array, weight: &Array, o: &ConvOptions) -> Result<Array> {
    let refuse = |m: String| Err(Error::invalid("conv", m));
    let n = input.ndim().saturating_sub(2);
    if !(1..=3).contains(&n) || weight.ndim() != input.ndim() {
        return refuse(format!(
            "Only works for inputs with 1-3 spatial dimensions. The inputs must be in the format [N, ..., C_in] and the \
             weight [C_out, ..., C_in]; received shapes {} and {}.",
            format_shape(input.shape()),
            format_shape(weight.shape())
        ));
    }
    let dtype = input.dtype().promote(weight.dtype());
    if !dtype.is_inexact() {
        return refuse(format!("Only inexact types are supported, not {dtype}."));
    }
    let expand = |what: &str, v: &[i64], least: i64| -> Result<SmallVec<[i64; 3]>> {
        let all: SmallVec<[i64; 3]> = if v.len() == 1 { smallvec![v[0]; n] } else { v.into() };
        if all.len() != n || all.iter().any(|&x| x < least || x.abs() > i32::MAX as i64) {
            return Err(Error::invalid("conv", format!("Invalid {what} {v:?} for {n} spatial dimensions.")));
        }
        Ok(all)
    };
    let positive = |what: &str, v: &[i64]| Ok(expand(what, v, 1)?.iter().map(|&x| x as u32).collect());
    let signed =
        |what: &str, v: &[i64]| Ok(expand(what, v, i64::MIN + 1)?.iter().map(|&x| x as i32).collect());
    let groups = o.groups;
    let (c, out_channels, wc) = (input.shape()[n + 1], weight.shape()[0], weight.shape()[n + 1]);
    if groups < 1 || c != wc * groups as usize || out_channels % groups as usize != 0 {
        return refuse(format!(
            "If groups = {groups}, the input channels ({c}) and output channels ({out_channels}) must be divisible by it and \
             the weight must have input channels / groups ({wc}) channels."
        ));
    }
    let geometry = ConvGeometry {
        stride: positive("stride", &o.stride)?,
        padding_lo: signed("padding", &o.padding_lo)?,
        padding_hi: signed("padding", &o.padding_hi)?,
        kernel_dilation: positive("kernel dilation", &o.kernel_dilation)?,
        input_dilation: positive("input dilation", &o.input_dilation)?,
        groups: groups as u32,
        flip: o.flip,
    };
    node(&ops::astype(input, dtype)?, &ops::astype(weight, dtype)?, geometry)
}

/// Length of an input axis with its inserted zeros.
fn dilated(n: usize, dilation: u32) -> i64 {
    if n == 0 { 0 } else { (n as i64 - 1) * dilation as i64 + 1 }
}

fn node(input: &Array, weight: &Array, g: ConvGeometry) -> Result<Array> {
    let n = input.ndim() - 2;
    let mut shape: Shape = smallvec![input.shape()[0]];
    for i in 0..n {
        let reach = dilated(weight.shape()[i + 1], g.kernel_dilation[i]);
        let have = dilated(input.shape()[i + 1], g.input_dilation[i])
            + g.padding_lo[i] as i64
            + g.padding_hi[i] as i64;
        if have < reach {
            let message = format!(
                "Spatial dimensions of input after padding cannot be smaller than weight spatial dimensions: input {}, \
                 weight {}.",
                format_shape(input.shape()),
                format_shape(weight.shape())
            );
            return Err(Error::invalid("conv", message));
        }
        shape.push(((have - reach) / g.stride[i] as i64 + 1) as usize);
    }
    shape.push(weight.shape()[0]);
    crate::array::checked_size(&shape, input.dtype())?;
    let op = Primitive::Op(Op::Conv(Box::new(g)));
    Ok(Array::apply(op, Params::none(), shape, input.dtype(), smallvec![input.clone(), weight.clone()]))
}

/// Cotangents of input and weight: both are convolutions again.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let Primitive::Op(Op::Conv(geometry)) = app.op else { return Ok(None) };
    let (x, w) = (&app.inputs[0], &app.inputs[1]);
    Ok(Some(if by == 0 { input_cotangent(geometry, x, w, g)? } else { weight_cotangent(geometry, x, w, g)? }))
}

/// The cotangent with zeros between its elements, convolved with the kernel read the other way round.
fn input_cotangent(geometry: &ConvGeometry, x: &Array, w: &Array, g: &Array) -> Result<Array> {
    let n = x.ndim() - 2;
    let groups = geometry.groups as usize;
    let mut back = ConvGeometry {
        stride: geometry.input_dilation.clone(),
        input_dilation: geometry.stride.clone(),
        flip: !geometry.flip,
        ..geometry.clone()
    };
    for i in 0..n {
        let reach = (w.shape()[i + 1] as i64 - 1) * geometry.kernel_dilation[i] as i64;
        let (lo, have) =
            (geometry.padding_lo[i] as i64, dilated(x.shape()[i + 1], geometry.input_dilation[i]));
        back.padding_lo[i] = (reach - lo) as i32;
        back.padding_hi[i] = (have - dilated(g.shape()[i + 1], geometry.stride[i]) + lo) as i32;
    }
    // [O, k.., C/G] -> [C, k.., O/G], group by group.
    let (o, c) = (w.shape()[0], w.shape()[n + 1]);
    let mut split: Shape = smallvec![groups, o / groups];
    split.extend_from_slice(&w.shape()[1..]);
    let mut order: Vec<i64> = vec![0, n as i64 + 2];
    order.extend(2..n as i64 + 2);
    order.push(1);
    let mut shape: Shape = smallvec![groups * c];
    shape.extend_from_slice(&w.shape()[1..=n]);
    shape.push(o / groups);
    let turned = reshape_to(&ops::transpose(&reshape_to(w, split), Some(&order))?, shape);
    let turned = if w.dtype() == Dtype::Complex64 { ops::conjugate(&turned)? } else { turned };
    node(g, &turned, back)
}

/// The input's channels as a batch, convolved with the cotangent as a kernel over the true batch.
fn weight_cotangent(geometry: &ConvGeometry, x: &Array, w: &Array, g: &Array) -> Result<Array> {
    let n = x.ndim() - 2;
    let groups = geometry.groups as i64;
    if groups > 1 {
        let parts = ops::split(x, groups, -1)?
            .into_iter()
            .zip(ops::split(g, groups, -1)?)
            .zip(ops::split(w, groups, 0)?);
        let alone = ConvGeometry { groups: 1, ..geometry.clone() };
        let all: Vec<Array> =
            parts.map(|((x, g), w)| weight_cotangent(&alone, &x, &w, &g)).collect::<Result<_>>()?;
        return ops::concatenate(&all, 0);
    }
    let mut across = ConvGeometry {
        stride: geometry.kernel_dilation.clone(),
        kernel_dilation: geometry.stride.clone(),
        flip: false,
        ..geometry.clone()
    };
    for i in 0..n {
        let reach = (w.shape()[i + 1] as i64 - 1) * geometry.kernel_dilation[i] as i64;
        let have = dilated(x.shape()[i + 1], geometry.input_dilation[i]);
        let spread = dilated(g.shape()[i + 1], geometry.stride[i]);
        across.padding_hi[i] = (reach + spread - have - geometry.padding_lo[i] as i64) as i32;
    }
    let last = n as i64 + 1;
    let x = ops::swapaxes(x, 0, last)?;
    let x = if x.dtype() == Dtype::Complex64 { ops::conjugate(&x)? } else { x };
    let out = ops::swapaxes(&node(&x, &ops::swapaxes(g, 0, last)?, across)?, 0, last)?;
    if !geometry.flip {
        return Ok(out);
    }
    let reversed = |i: usize| (1..=n).contains(&i);
    let lengths: Vec<i64> = out.shape().iter().map(|&d| d as i64).collect();
    let start: Vec<i64> = (0..n + 2).map(|i| if reversed(i) { lengths[i] - 1 } else { 0 }).collect();
    let stop: Vec<i64> = (0..n + 2).map(|i| if reversed(i) { -lengths[i] - 1 } else { lengths[i] }).collect();
    let steps: Vec<i64> = (0..n + 2).map(|i| if reversed(i) { -1 } else { 1 }).collect();
    ops::slice(&out, &start, &stop, &steps)
}

/// `conv(tx, w) + conv(x, tw)`.
pub(crate) fn jvp(app: &App<'_>, tangents: &[Option<Array>]) -> Result<Option<Array>> {
    let left = tangents[0].as_ref().map(|t| app.reapply(smallvec![t.clone(), app.inputs[1].clone()]));
    let right = tangents[1].as_ref().map(|t| app.reapply(smallvec![app.inputs[0].clone(), t.clone()]));
    Ok(match (left, right) {
        (Some(x), Some(y)) => Some(ops::add(&x, &y)?),
        (x, y) => x.or(y),
    })
}
