//! The table of element-wise operations on two operands, which broadcast and promote first.
//!
//! A row is `doc, variant, public name, dtype rule, derivative by a, derivative by b`. A derivative is a
//! function of operands a and b, result y and cotangent g, linear in g (see `unary.rs`).

/// Calls `$callback!` with all rows (after `$extra` tokens).
#[macro_export]
macro_rules! binary_table {
    ($callback:ident $($extra:tt)*) => {
        $callback! { $($extra)*
            /// a + b; logical or of bools.
            Add add Arith (|_a, _b, _y, g| g) (|_a, _b, _y, g| g);
            /// Angle of the point (b, a) in radians, in (-pi, pi].
            ArcTan2 arctan2 Inexact (|a, b, _y, g| g * b / (a.square() + b.square()))
                (|a, b, _y, g| -(g * a / (a.square() + b.square())));
            /// Bits set in both. ValueError for floating types.
            BitwiseAnd bitwise_and Bits (zero) (zero);
            /// Bits set in either. ValueError for floating types.
            BitwiseOr bitwise_or Bits (zero) (zero);
            /// Bits set in one of them. ValueError for floating types.
            BitwiseXor bitwise_xor Bits (zero) (zero);
            /// a / b; integers divide as float32.
            Divide divide Inexact (|_a, b, _y, g| g / b) (|_a, b, y, g| -(g * (y / b)));
            /// Whether a == b.
            Equal equal Compare (zero) (zero);
            /// The greatest integer not above a / b. Integer division by zero gives 0.
            FloorDivide floor_divide Ordered (zero) (zero);
            /// Whether a > b; complex numbers compare lexicographically.
            Greater greater Compare (zero) (zero);
            /// Whether a >= b; complex numbers compare lexicographically.
            GreaterEqual greater_equal Compare (zero) (zero);
            /// a * 2^b; the shift is taken modulo the type's width.
            LeftShift left_shift Shift (zero) (zero);
            /// Whether a < b; complex numbers compare lexicographically.
            Less less Compare (zero) (zero);
            /// Whether a <= b; complex numbers compare lexicographically.
            LessEqual less_equal Compare (zero) (zero);
            /// log(exp(a) + exp(b)), without overflow.
            LogAddExp logaddexp Inexact (|a, b, _y, g| g * (a - b).sigmoid()) (|a, b, _y, g| g * (b - a).sigmoid());
            /// Whether both are true.
            LogicalAnd logical_and Logic (zero) (zero);
            /// Whether either is true.
            LogicalOr logical_or Logic (zero) (zero);
            /// The larger of both; NaN if either is NaN.
            Maximum maximum Arith (|a, b, _y, g| g.masked(a.greater(b))) (|a, b, _y, g| g.masked(a.less_equal(b)));
            /// The smaller of both; NaN if either is NaN.
            Minimum minimum Arith (|a, b, _y, g| g.masked(a.less(b))) (|a, b, _y, g| g.masked(a.greater_equal(b)));
            /// a * b; logical and of bools.
            Multiply multiply Arith (|_a, b, _y, g| g * b) (|a, _b, _y, g| g * a);
            /// Whether a != b.
            NotEqual not_equal Compare (zero) (zero);
            /// a ** b. Integers stay integers; a negative integer exponent gives 0.
            Power power Arith (|a, b, _y, g| g * (b * a.power(&(b - 1.0))))
                (|a, _b, y, g| (g * (a.log() * y)).masked(a.not_equal(&a.zero_like())));
            /// a - floor(a / b) * b: takes the sign of b. Integer remainder by zero gives a.
            Remainder remainder Ordered (|_a, _b, _y, g| g) (|a, b, _y, g| -(g * a.floor_divide(b)));
            /// a / 2^b, sign-extending; the shift is taken modulo the type's width.
            RightShift right_shift Shift (zero) (zero);
            /// a - b; exclusive or of bools.
            Subtract subtract Arith (|_a, _b, _y, g| g) (|_a, _b, _y, g| -g);
        }
    };
}
