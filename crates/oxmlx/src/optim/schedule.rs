//! Learning rates that change with the step. They are computed on the host in float64: a rate is one number.

/// A learning rate.
pub enum Rate {
    /// Always the same.
    Constant(f64),
    /// By the number of steps taken.
    Scheduled(Box<dyn Fn(u64) -> f64 + Send + Sync>),
}

impl Rate {
    /// The rate after `step` steps.
    pub fn at(&self, step: u64) -> f64 {
        match self {
            Rate::Constant(rate) => *rate,
            Rate::Scheduled(f) => f(step),
        }
    }

    /// A rate by the number of steps taken.
    pub fn of(f: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Rate {
        Rate::Scheduled(Box::new(f))
    }
}

impl From<f64> for Rate {
    fn from(rate: f64) -> Rate {
        Rate::Constant(rate)
    }
}

/// `init * decay^step`.
pub fn exponential_decay(init: f64, decay: f64) -> Rate {
    Rate::of(move |step| init * decay.powf(step as f64))
}

/// `init * decay^(step / size)`, the quotient floored.
pub fn step_decay(init: f64, decay: f64, size: u64) -> Rate {
    Rate::of(move |step| init * decay.powf((step / size.max(1)) as f64))
}

/// From `init` along half a cosine to `end` at `steps`, and `end` from there on (Loshchilov, Hutter, 2016).
pub fn cosine_decay(init: f64, steps: u64, end: f64) -> Rate {
    Rate::of(move |step| {
        let part = step.min(steps) as f64 / steps.max(1) as f64;
        end + 0.5 * (1.0 + (std::f64::consts::PI * part).cos()) * (init - end)
    })
}

/// From `init` in a straight line to `end` at `steps`, then `end`.
pub fn linear(init: f64, end: f64, steps: u64) -> Rate {
    Rate::of(move |step| step.min(steps) as f64 * ((end - init) / steps.max(1) as f64) + init)
}

/// `first`, and from each boundary on the rate beside it, which counts its steps from there.
///
/// ```
/// use oxmlx::optim::schedule::{constant, join, linear};
/// let warm = join(linear(0.0, 1.0, 10), vec![(10, constant(1.0)), (20, linear(1.0, 0.0, 10))]);
/// assert_eq!([0, 5, 10, 25, 40].map(|step| warm.at(step)), [0.0, 0.5, 1.0, 0.5, 0.0]);
/// ```
pub fn join(first: Rate, following: Vec<(u64, Rate)>) -> Rate {
    Rate::of(move |step| {
        let current = following.iter().rev().find(|(boundary, _)| *boundary <= step);
        current.map_or_else(|| first.at(step), |(boundary, rate)| rate.at(step - boundary))
    })
}

/// Always the same.
pub fn constant(rate: f64) -> Rate {
    Rate::Constant(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_their_ends() {
        let near =
            |rate: &Rate, step: u64, want: f64| assert!((rate.at(step) - want).abs() < 1e-12, "{step}");
        let cosine = cosine_decay(0.1, 10, 0.01);
        for (step, want) in [(0, 0.1), (5, 0.055), (10, 0.01), (99, 0.01)] {
            near(&cosine, step, want);
        }
        near(&step_decay(1.0, 0.5, 10), 29, 0.25);
        near(&exponential_decay(1.0, 0.5), 3, 0.125);
        near(&linear(0.0, 1.0, 4), 3, 0.75);
    }
}
