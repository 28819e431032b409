//! Parameters by name. Everything that works on a whole model (gradients, optimisers, files, training mode)
//! goes through the three walks of [`Params`], which `params!` writes for a struct.

use crate::{Array, Error, Result, format_shape, io};
use std::collections::BTreeMap;
use std::path::Path;

/// Arrays by name, in the order of the names.
pub type Parameters = BTreeMap<String, Array>;

/// Something that holds parameters: an array, a layer, a model, or several of them.
pub trait Params {
    /// Calls `f` with every parameter and its name; names begin with `at`.
    fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &Array));

    /// As `visit`, for replacing them.
    fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut Array));

    /// Switches what differs between training and use (dropout).
    fn set_training(&mut self, _on: bool) {}

    /// Every parameter by its name.
    fn parameters(&self) -> Parameters {
        let mut all = Parameters::new();
        self.visit("", &mut |name, a| {
            all.insert(name.to_string(), a.clone());
        });
        all
    }

    /// Every parameter, in the order of the names: what to evaluate after a step.
    fn arrays(&self) -> Vec<Array> {
        self.parameters().into_values().collect()
    }

    /// Number of elements of all parameters.
    fn count(&self) -> usize {
        let mut n = 0;
        self.visit("", &mut |_, a| n += a.size());
        n
    }

    /// Replaces the parameters that `with` names; the others stay.
    ///
    /// # Errors
    /// InvalidArgument if there is no such parameter or its shape is another; nothing is replaced then.
    fn update(&mut self, with: &Parameters) -> Result<()> {
        let mut found = 0;
        let mut wrong = None;
        self.visit("", &mut |name, old| {
            if let Some(new) = with.get(name) {
                found += 1;
                if new.shape() != old.shape() {
                    wrong.get_or_insert_with(|| {
                        let (new, old) = (format_shape(new.shape()), format_shape(old.shape()));
                        format!("Expected shape {old} but received shape {new} for parameter {name}.")
                    });
                }
            }
        });
        if wrong.is_none() && found < with.len() {
            let known = self.parameters();
            let extra: Vec<&str> =
                with.keys().filter(|k| !known.contains_key(*k)).map(String::as_str).collect();
            wrong = Some(format!("Received {} parameters not in model: {}.", extra.len(), extra.join(", ")));
        }
        if let Some(message) = wrong {
            return Err(Error::invalid("update", message));
        }
        self.visit_mut("", &mut |name, a| {
            if let Some(new) = with.get(name) {
                *a = new.clone();
            }
        });
        Ok(())
    }

    /// Writes all parameters to a safetensors file, which MLX reads, too.
    ///
    /// # Errors
    /// Io if the file can't be written; whatever evaluation raises.
    fn save(&self, path: &Path) -> Result<()> {
        io::write_file(path, &io::safetensors::to_bytes(&self.parameters(), None)?)
    }

    /// Reads all parameters from a safetensors file.
    ///
    /// # Errors
    /// Io if the file can't be read; InvalidArgument unless it has exactly this model's parameters.
    fn load(&mut self, path: &Path) -> Result<()> {
        let (arrays, _) = io::safetensors::from_bytes(&io::read_file(path)?)?;
        let new: Parameters = arrays.into_iter().collect();
        let missing: Vec<String> =
            self.parameters().into_keys().filter(|name| !new.contains_key(name)).collect();
        if !missing.is_empty() {
            let message = format!("Missing {} parameters: {}.", missing.len(), missing.join(", "));
            return Err(Error::invalid("load", message));
        }
        self.update(&new)
    }
}

/// The name of something inside what is called `at`.
pub fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_string() } else { format!("{at}.{name}") }
}

impl Params for Array {
    fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &Array)) {
        f(at, self);
    }

    fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut Array)) {
        f(at, self);
    }
}

impl<P: Params> Params for Option<P> {
    fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &Array)) {
        self.iter().for_each(|p| p.visit(at, f));
    }

    fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut Array)) {
        self.iter_mut().for_each(|p| p.visit_mut(at, f));
    }

    fn set_training(&mut self, on: bool) {
        self.iter_mut().for_each(|p| p.set_training(on));
    }
}

/// The elements are called by their positions.
impl<P: Params> Params for Vec<P> {
    fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &Array)) {
        self.iter().enumerate().for_each(|(i, p)| p.visit(&join(at, &i.to_string()), f));
    }

    fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut Array)) {
        self.iter_mut().enumerate().for_each(|(i, p)| p.visit_mut(&join(at, &i.to_string()), f));
    }

    fn set_training(&mut self, on: bool) {
        self.iter_mut().for_each(|p| p.set_training(on));
    }
}

impl<P: Params + ?Sized> Params for Box<P> {
    fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &Array)) {
        (**self).visit(at, f);
    }

    fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut Array)) {
        (**self).visit_mut(at, f);
    }

    fn set_training(&mut self, on: bool) {
        (**self).set_training(on);
    }
}

/// Makes a struct's fields its parameters: arrays, layers, other models, and `Option`s and `Vec`s of them.
/// Fields that are not named are no parameters.
///
/// ```
/// use oxmlx::nn::{Embedding, Linear, Params};
///
/// struct Model {
///     tokens: Embedding,
///     heads: Vec<Linear>,
///     temperature: f64,
/// }
/// oxmlx::params!(Model { tokens, heads });
///
/// let heads = vec![Linear::new(4, 2)?, Linear::without_bias(4, 2)?];
/// let model = Model { tokens: Embedding::new(10, 4)?, heads, temperature: 1.0 };
/// let names: Vec<String> = model.parameters().into_keys().collect();
/// assert_eq!(names, ["heads.0.bias", "heads.0.weight", "heads.1.weight", "tokens.weight"]);
/// assert_eq!(model.count(), 2 + 8 + 8 + 40);
/// # let _ = model.temperature;
/// # Ok::<(), oxmlx::Error>(())
/// ```
#[macro_export]
macro_rules! params {
    ($model:ty { $($field:ident),* $(,)? }) => {
        impl $crate::nn::Params for $model {
            #[allow(unused_variables)]
            fn visit(&self, at: &str, f: &mut dyn FnMut(&str, &$crate::Array)) {
                $($crate::nn::Params::visit(&self.$field, &$crate::nn::join(at, stringify!($field)), f);)*
            }
            #[allow(unused_variables)]
            fn visit_mut(&mut self, at: &str, f: &mut dyn FnMut(&str, &mut $crate::Array)) {
                $($crate::nn::Params::visit_mut(&mut self.$field, &$crate::nn::join(at, stringify!($field)), f);)*
            }
            #[allow(unused_variables)]
            fn set_training(&mut self, on: bool) {
                $($crate::nn::Params::set_training(&mut self.$field, on);)*
            }
        }
    };
}
