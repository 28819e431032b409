//! The layers. Weights begin as in MLX, from the same numbers of the global key in the same order, so that a
//! seeded model is the same model in both languages.

use super::{Module, Params, normal, uniform};
use crate::{Array, Dtype, Error, Result, format_shape, ops};

/// An affine map of the last axis: `y = x W^T + b`.
///
/// The weight has shape `[output, input]`; both begin uniform in ±1/sqrt(input).
#[derive(Debug)]
pub struct Linear {
    /// `[output, input]`.
    pub weight: Array,
    /// `[output]`.
    pub bias: Option<Array>,
}
crate::params!(Linear { weight, bias });

impl Linear {
    /// A map from `input` to `output` features.
    pub fn new(input: usize, output: usize) -> Result<Linear> {
        let bound = (1.0 / input as f64).sqrt();
        let weight = uniform(bound, &[output, input])?;
        Ok(Linear { weight, bias: Some(uniform(bound, &[output])?) })
    }

    /// The same without a bias.
    pub fn without_bias(input: usize, output: usize) -> Result<Linear> {
        Ok(Linear { weight: uniform((1.0 / input as f64).sqrt(), &[output, input])?, bias: None })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Array) -> Result<Array> {
        let weight = ops::transpose(&self.weight, None)?;
        match &self.bias {
            Some(bias) => ops::addmm(bias, x, &weight, 1.0, 1.0),
            None => ops::matmul(x, &weight),
        }
    }
}

/// A convolution of `[N, H, W, input]` giving `[N, H', W', output]`.
///
/// The weight has shape `[output, kh, kw, input / groups]` and begins uniform in ±1/sqrt(input / groups * kh *
/// kw); the bias begins at zero.
///
/// ```
/// use oxmlx::nn::{Conv2d, Module};
/// use oxmlx::{Dtype, ops};
/// let layer = Conv2d::new(3, 8, [3, 3])?.stride([2, 2]).padding([1, 1]);
/// let y = layer.forward(&ops::zeros(&[1, 8, 8, 3], Dtype::Float32)?)?;
/// assert_eq!(y.shape(), [1, 4, 4, 8]);
/// # Ok::<(), oxmlx::Error>(())
/// ```
#[derive(Debug)]
pub struct Conv2d {
    /// `[output, kh, kw, input / groups]`.
    pub weight: Array,
    /// `[output]`.
    pub bias: Option<Array>,
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
}
crate::params!(Conv2d { weight, bias });

impl Conv2d {
    /// A convolution with stride 1 and no padding.
    pub fn new(input: usize, output: usize, kernel: [usize; 2]) -> Result<Conv2d> {
        Conv2d::grouped(input, output, kernel, 1)
    }

    /// A convolution whose channels are split into groups that do not see each other.
    ///
    /// # Errors
    /// InvalidArgument unless `groups` divides `input`.
    pub fn grouped(input: usize, output: usize, kernel: [usize; 2], groups: usize) -> Result<Conv2d> {
        if groups == 0 || !input.is_multiple_of(groups) {
            let message = format!(
                "The number of input channels ({input}) must be divisible by the number of groups ({groups})"
            );
            return Err(Error::invalid("Conv2d", message));
        }
        let [h, w] = kernel;
        let bound = (1.0 / (input / groups * h * w) as f64).sqrt();
        Ok(Conv2d {
            weight: uniform(bound, &[output, h, w, input / groups])?,
            bias: Some(ops::zeros(&[output], Dtype::Float32)?),
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            groups: groups as i64,
        })
    }

    /// Distance between windows, for rows and columns.
    pub fn stride(mut self, stride: [usize; 2]) -> Conv2d {
        self.stride = stride.map(|s| s as i64);
        self
    }

    /// Zeros before and after the rows and columns.
    pub fn padding(mut self, padding: [usize; 2]) -> Conv2d {
        self.padding = padding.map(|p| p as i64);
        self
    }

    /// Distance between the elements of a window.
    pub fn dilation(mut self, dilation: [usize; 2]) -> Conv2d {
        self.dilation = dilation.map(|d| d as i64);
        self
    }

    /// The same without a bias.
    pub fn without_bias(mut self) -> Conv2d {
        self.bias = None;
        self
    }
}

impl Module for Conv2d {
    fn forward(&self, x: &Array) -> Result<Array> {
        let options = ops::ConvOptions {
            stride: self.stride.to_vec(),
            padding_lo: self.padding.to_vec(),
            padding_hi: self.padding.to_vec(),
            kernel_dilation: self.dilation.to_vec(),
            groups: self.groups,
            ..ops::ConvOptions::default()
        };
        let y = ops::conv_general(x, &self.weight, &options)?;
        match &self.bias {
            Some(bias) => ops::add(&y, bias),
            None => Ok(y),
        }
    }
}

/// The greatest element of each `size` by `size` window of `[N, H, W, C]`; windows do not overlap, and rows
/// and columns that fill none are left out.
///
/// ```
/// use oxmlx::{Dtype, nn, ops};
/// oxmlx::init();
/// let x = ops::reshape(&ops::arange(0.0, 20.0, 1.0, Dtype::Float32)?, &[1, 4, 5, 1])?;
/// assert_eq!(nn::max_pool2d(&x, 2)?.to_f64_vec()?, [6.0, 8.0, 16.0, 18.0]);
/// # Ok::<(), oxmlx::Error>(())
/// ```
pub fn max_pool2d(x: &Array, size: usize) -> Result<Array> {
    let &[n, h, w, c] = x.shape() else {
        let message = format!("Expected [N, H, W, C] but got shape {}.", format_shape(x.shape()));
        return Err(Error::invalid("max_pool2d", message));
    };
    if size == 0 || h < size || w < size {
        return Err(Error::invalid(
            "max_pool2d",
            format!("Windows of {size} do not fit into {h} by {w} pixels."),
        ));
    }
    let dims = [n, h / size * size, w / size * size, c].map(|d| d as i64);
    let x = if dims[1] as usize == h && dims[2] as usize == w {
        x.clone()
    } else {
        ops::slice(x, &[0; 4], &dims, &[1; 4])?
    };
    let (size, [n, h, w, c]) = (size as i64, dims);
    let windows = ops::reshape(&x, &[n, h / size, size, w / size, size, c])?;
    ops::max(&windows, Some(&[2, 4]), false)
}

/// Normalisation over the last axis: `(x - mean) / sqrt(var + eps) * weight + bias` (Ba et al., 2016).
#[derive(Debug)]
pub struct LayerNorm {
    /// `[dims]`, begins with ones.
    pub weight: Array,
    /// `[dims]`, begins with zeros.
    pub bias: Array,
    /// Added to the variance.
    pub eps: f64,
}
crate::params!(LayerNorm { weight, bias });

impl LayerNorm {
    /// For `dims` features, with eps 1e-5.
    pub fn new(dims: usize) -> Result<LayerNorm> {
        crate::init();
        let (weight, bias) = (ops::ones(&[dims], Dtype::Float32)?, ops::zeros(&[dims], Dtype::Float32)?);
        Ok(LayerNorm { weight, bias, eps: 1e-5 })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Array) -> Result<Array> {
        ops::layer_norm(x, Some(&self.weight), Some(&self.bias), self.eps)
    }
}

/// A table of `count` vectors; the operand holds positions in it.
#[derive(Debug)]
pub struct Embedding {
    /// `[count, dims]`, begins normal with deviation 1/sqrt(dims).
    pub weight: Array,
}
crate::params!(Embedding { weight });

impl Embedding {
    /// A table of `count` vectors of `dims` elements.
    pub fn new(count: usize, dims: usize) -> Result<Embedding> {
        let scale = ops::weak((1.0 / dims as f64).sqrt(), Dtype::Float32);
        Ok(Embedding { weight: ops::multiply(&normal(&[count, dims])?, &scale)? })
    }

    /// The table as a linear map from `dims` features to `count` scores.
    pub fn as_linear(&self, x: &Array) -> Result<Array> {
        ops::matmul(x, &ops::transpose(&self.weight, None)?)
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Array) -> Result<Array> {
        ops::take(&self.weight, x, 0)
    }
}

/// While training, zeroes each element with probability `p` and scales the others by 1 / (1 - p); otherwise
/// nothing (Srivastava et al., 2014).
#[derive(Debug)]
pub struct Dropout {
    keep: f64,
    training: bool,
}

impl Dropout {
    /// Begins in training mode; [`Params::set_training`] switches.
    ///
    /// # Errors
    /// InvalidArgument unless 0 <= p < 1.
    pub fn new(p: f64) -> Result<Dropout> {
        if !(0.0..1.0).contains(&p) {
            return Err(Error::invalid("Dropout", format!("The dropout probability {p} is not in [0, 1)")));
        }
        Ok(Dropout { keep: 1.0 - p, training: true })
    }
}

impl Params for Dropout {
    fn visit(&self, _at: &str, _f: &mut dyn FnMut(&str, &Array)) {}

    fn visit_mut(&mut self, _at: &str, _f: &mut dyn FnMut(&str, &mut Array)) {}

    fn set_training(&mut self, on: bool) {
        self.training = on;
    }
}

impl Module for Dropout {
    fn forward(&self, x: &Array) -> Result<Array> {
        if self.keep == 1.0 || !self.training {
            return Ok(x.clone());
        }
        let keep = Array::from_f64(self.keep, Dtype::Float32);
        let mask = ops::random::bernoulli(&keep, x.shape(), &ops::random::next_key(None)?)?;
        ops::multiply(&ops::multiply(&mask, x)?, &ops::weak(1.0 / self.keep, x.dtype()))
    }
}

/// What a [`Lambda`] calls.
type Function = dyn Fn(&Array) -> Result<Array> + Send + Sync;

/// A function as a layer without parameters.
pub struct Lambda(Box<Function>);
crate::params!(Lambda {});

impl Module for Lambda {
    fn forward(&self, x: &Array) -> Result<Array> {
        (self.0)(x)
    }
}

/// Layers one after the other.
///
/// ```
/// use oxmlx::nn::{self, Linear, Module, Params, Sequential};
/// use oxmlx::{Dtype, ops};
/// let model = Sequential::new().then(Linear::new(4, 8)?).apply(nn::silu).then(Linear::new(8, 2)?);
/// assert_eq!(model.forward(&ops::ones(&[3, 4], Dtype::Float32)?)?.shape(), [3, 2]);
/// assert!(model.parameters().contains_key("layers.2.weight"));
/// # Ok::<(), oxmlx::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Module>>,
}
crate::params!(Sequential { layers });

impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer.
    pub fn then(mut self, layer: impl Module + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }

    /// With one more function. It counts as a layer in the names of those that follow, as in MLX.
    pub fn apply(self, f: impl Fn(&Array) -> Result<Array> + Send + Sync + 'static) -> Sequential {
        self.then(Lambda(Box::new(f)))
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Array) -> Result<Array> {
        self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))
    }
}
