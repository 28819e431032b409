//! The table of element-wise operations on one operand.
//!
//! A row is `doc, variant, public name, dtype rule, derivative`. From it come the enum variant, the public
//! function, the Python function, vjp, jvp, vmap, shape rule and fusability. The derivative is a function of
//! operand x, result y and cotangent g, linear in g; jvp feeds it the tangent. For complex operands the
//! vjp uses its conjugate, so that the gradient of |z|^2 is 2z. `(zero)` says that nothing flows back;
//! `(special)` that `differentiate.rs` has a rule that isn't a multiple of g.

/// Calls `$callback!` with all rows (after `$extra` tokens).
#[macro_export]
macro_rules! unary_table {
    ($callback:ident $($extra:tt)*) => {
        $callback! { $($extra)*
            /// Absolute value |a|; the modulus of complex numbers, as float32.
            Abs abs Real (special);
            /// Inverse cosine, in radians.
            ArcCos arccos Inexact (|x, _y, g| -(g * (1.0 - x.square()).rsqrt()));
            /// Inverse hyperbolic cosine.
            ArcCosh arccosh Inexact (|x, _y, g| g * (x.square() - 1.0).rsqrt());
            /// Inverse sine, in radians.
            ArcSin arcsin Inexact (|x, _y, g| g * (1.0 - x.square()).rsqrt());
            /// Inverse hyperbolic sine.
            ArcSinh arcsinh Inexact (|x, _y, g| g * (x.square() + 1.0).rsqrt());
            /// Inverse tangent, in radians.
            ArcTan arctan Inexact (|x, _y, g| g / (x.square() + 1.0));
            /// Inverse hyperbolic tangent.
            ArcTanh arctanh Inexact (|x, _y, g| g / (1.0 - x.square()));
            /// Every bit flipped; logical not of bools. ValueError for floating types.
            BitwiseInvert bitwise_invert Bits (zero);
            /// Rounds towards positive infinity.
            Ceil ceil Ordered (zero);
            /// Complex conjugate; the operand itself for real types.
            Conjugate conjugate Same (special);
            /// Cosine of an angle in radians.
            Cos cos Inexact (|x, _y, g| -(g * x.sin()));
            /// Hyperbolic cosine.
            Cosh cosh Inexact (|x, _y, g| g * x.sinh());
            /// Converts angles from radians to degrees.
            Degrees degrees RealInexact (|_x, _y, g| g * (180.0 / std::f64::consts::PI));
            /// The error function 2/sqrt(pi) * integral of exp(-t^2) from 0 to a.
            Erf erf RealInexact (|x, _y, g| g * (-x.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI);
            /// Inverse of the error function; infinite at -1 and 1, NaN outside.
            ErfInv erfinv RealInexact (|_x, y, g| g * y.square().exp() * (1.0 / std::f64::consts::FRAC_2_SQRT_PI));
            /// Exponential.
            Exp exp Inexact (|_x, y, g| g * y);
            /// exp(a) - 1, accurate near 0.
            Expm1 expm1 Inexact (|_x, y, g| g * (y + 1.0));
            /// Rounds towards negative infinity.
            Floor floor Ordered (zero);
            /// Imaginary part; zeros for real types.
            Imag imag Real (special);
            /// Whether each element is neither infinite nor NaN.
            IsFinite isfinite Truth (zero);
            /// Whether each element is infinite.
            IsInf isinf Truth (zero);
            /// Whether each element is NaN.
            IsNan isnan Truth (zero);
            /// Whether each element is negative infinity.
            IsNegInf isneginf Truth (zero);
            /// Whether each element is positive infinity.
            IsPosInf isposinf Truth (zero);
            /// Natural logarithm.
            Log log Inexact (|x, _y, g| g / x);
            /// Logarithm to base 10.
            Log10 log10 Inexact (|x, _y, g| g / (x * std::f64::consts::LN_10));
            /// log(1 + a), accurate near 0.
            Log1p log1p Inexact (|x, _y, g| g / (x + 1.0));
            /// Logarithm to base 2.
            Log2 log2 Inexact (|x, _y, g| g / (x * std::f64::consts::LN_2));
            /// Whether each element is zero.
            LogicalNot logical_not Truth (zero);
            /// -a. ValueError for bools.
            Negative negative Signed (|_x, _y, g| -g);
            /// Converts angles from degrees to radians.
            Radians radians RealInexact (|_x, _y, g| g * (std::f64::consts::PI / 180.0));
            /// Real part; the operand itself for real types.
            Real real Real (special);
            /// 1 / a.
            Reciprocal reciprocal Inexact (|_x, y, g| -(g * y.square()));
            /// Rounds to the nearest integer, halves to even.
            Round round Same (zero);
            /// 1 / sqrt(a).
            Rsqrt rsqrt Inexact (|x, y, g| g * (y / x) * -0.5);
            /// The logistic function 1 / (1 + exp(-a)).
            Sigmoid sigmoid Inexact (|_x, y, g| g * (y * (1.0 - y)));
            /// -1, 0 or 1 by sign; z / |z| for complex numbers.
            Sign sign Same (zero);
            /// Sine of an angle in radians.
            Sin sin Inexact (|x, _y, g| g * x.cos());
            /// Hyperbolic sine.
            Sinh sinh Inexact (|x, _y, g| g * x.cosh());
            /// Square root.
            Sqrt sqrt Inexact (|_x, y, g| g * 0.5 / y);
            /// a * a.
            Square square Same (|x, _y, g| g * (x * 2.0));
            /// Tangent of an angle in radians.
            Tan tan Inexact (|_x, y, g| g * (y.square() + 1.0));
            /// Hyperbolic tangent.
            Tanh tanh Inexact (|_x, y, g| g * (1.0 - y.square()));
        }
    };
}
