// Element-wise operations on complex64: one function an operation, named as in the table of the core.
//
// Functions are evaluated in float64 and rounded once, which keeps textbook formulas accurate. They are not
// inlined: code for float64 is long.

#pragma once
#include "common.cuh"

namespace complex {

// A complex number of float64.
struct Wide {
  float64 re, im;
};

#define WIDE static __device__ __forceinline__ Wide
#define COMPLEX static __device__ __forceinline__ complex64
#define FUNCTION static __device__ __noinline__ complex64
#define TRUTH static __device__ __forceinline__ bool
#define REAL static __device__ __forceinline__ float32

WIDE widen(complex64 z) { return Wide{(float64)z.re, (float64)z.im}; }
COMPLEX narrow(Wide z) { return complex64{(float32)z.re, (float32)z.im}; }
WIDE operator+(Wide a, Wide b) { return Wide{a.re + b.re, a.im + b.im}; }
WIDE operator-(Wide a, Wide b) { return Wide{a.re - b.re, a.im - b.im}; }
WIDE operator-(Wide a) { return Wide{-a.re, -a.im}; }
WIDE operator*(Wide a, Wide b) { return Wide{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
WIDE operator/(Wide a, Wide b) {
  const float64 n = b.re * b.re + b.im * b.im;
  return Wide{(a.re * b.re + a.im * b.im) / n, (a.im * b.re - a.re * b.im) / n};
}
WIDE scaled(Wide a, float64 s) { return Wide{a.re * s, a.im * s}; }
WIDE one() { return Wide{1.0, 0.0}; }
// i z and -i z.
WIDE turned(Wide z) { return Wide{-z.im, z.re}; }
WIDE turned_back(Wide z) { return Wide{z.im, -z.re}; }
static __device__ __forceinline__ bool negative_sign(float64 x) { return bits_as<int64>(x) < 0; }

// A real result for a real z, and no NaN from 0 * inf.
WIDE wide_exp(Wide z) {
  const float64 r = ::exp(z.re);
  return z.im == 0.0 ? Wide{r, z.im} : Wide{r * ::cos(z.im), r * ::sin(z.im)};
}
WIDE wide_log(Wide z) { return Wide{::log(::hypot(z.re, z.im)), ::atan2(z.im, z.re)}; }
WIDE wide_sqrt(Wide z) {
  if (z.im == 0.0) {
    if (!negative_sign(z.re)) return Wide{::sqrt(z.re), z.im};
    const float64 y = ::sqrt(-z.re);
    return Wide{0.0, negative_sign(z.im) ? -y : y};
  }
  if (z.re == 0.0) {
    const float64 x = ::sqrt(::fabs(z.im) / 2.0);
    return Wide{x, negative_sign(z.im) ? -x : x};
  }
  const float64 r = ::sqrt(::hypot(z.re, z.im)), t = ::atan2(z.im, z.re) / 2.0;
  return Wide{r * ::cos(t), r * ::sin(t)};
}
WIDE wide_tanh(Wide z) {
  if (::fabs(z.re) > 300.0) return Wide{::copysign(1.0, z.re), ::copysign(0.0, z.im)};
  const float64 a = 2.0 * z.re, b = 2.0 * z.im, d = ::cosh(a) + ::cos(b);
  return Wide{::sinh(a) / d, ::sin(b) / d};
}

// One operand.
REAL abs(complex64 z) { return ::hypotf(z.re, z.im); }
FUNCTION arccos(complex64 z) {
  const Wide w = widen(z);
  return narrow(turned_back(wide_log(turned(wide_sqrt(one() - w * w)) + w)));
}
FUNCTION arccosh(complex64 z) {
  const Wide w = widen(z);
  const Wide a = wide_sqrt(scaled(w + one(), 0.5)), b = wide_sqrt(scaled(w - one(), 0.5));
  return narrow(scaled(wide_log(a + b), 2.0));
}
FUNCTION arcsin(complex64 z) {
  const Wide w = widen(z);
  return narrow(turned_back(wide_log(wide_sqrt(one() - w * w) + turned(w))));
}
FUNCTION arcsinh(complex64 z) {
  const Wide w = widen(z);
  return narrow(wide_log(w + wide_sqrt(one() + w * w)));
}
FUNCTION arctan(complex64 z) {
  const Wide w = widen(z);
  const float64 inf = bits_as<float64>(0x7ff0000000000000ull);
  if (w.re == 0.0 && w.im == 1.0) return narrow(Wide{0.0, inf});
  if (w.re == 0.0 && w.im == -1.0) return narrow(Wide{0.0, -inf});
  return narrow(scaled(turned_back(wide_log(one() + turned(w)) - wide_log(one() - turned(w))), 0.5));
}
FUNCTION arctanh(complex64 z) {
  const Wide w = widen(z);
  const float64 inf = bits_as<float64>(0x7ff0000000000000ull);
  if (w.re == 1.0 && w.im == 0.0) return narrow(Wide{inf, 0.0});
  if (w.re == -1.0 && w.im == 0.0) return narrow(Wide{-inf, 0.0});
  return narrow(scaled(wide_log(one() + w) - wide_log(one() - w), 0.5));
}
COMPLEX conjugate(complex64 z) { return complex64{z.re, -z.im}; }
FUNCTION cos(complex64 z) {
  const Wide w = widen(z);
  return narrow(Wide{::cos(w.re) * ::cosh(w.im), -::sin(w.re) * ::sinh(w.im)});
}
FUNCTION cosh(complex64 z) {
  const Wide w = widen(z);
  return narrow(Wide{::cosh(w.re) * ::cos(w.im), ::sinh(w.re) * ::sin(w.im)});
}
FUNCTION exp(complex64 z) { return narrow(wide_exp(widen(z))); }
FUNCTION expm1(complex64 z) {
  const Wide w = widen(z);
  const float64 h = ::sin(0.5 * w.im);
  return narrow(Wide{::expm1(w.re) * ::cos(w.im) - 2.0 * h * h, wide_exp(w).im});
}
REAL imag(complex64 z) { return z.im; }
TRUTH finite(float32 x) { return ::fabsf(x) < bits_as<float32>(0x7f800000u); }
TRUTH infinite(float32 x) { return ::fabsf(x) == bits_as<float32>(0x7f800000u); }
TRUTH isfinite(complex64 z) { return finite(z.re) && finite(z.im); }
TRUTH isinf(complex64 z) { return infinite(z.re) || infinite(z.im); }
TRUTH isnan(complex64 z) { return z.re != z.re || z.im != z.im; }
TRUTH isneginf(complex64 z) { return z.re == bits_as<float32>(0xff800000u) && z.im == 0.0f; }
TRUTH isposinf(complex64 z) { return z.re == bits_as<float32>(0x7f800000u) && z.im == 0.0f; }
FUNCTION log(complex64 z) { return narrow(wide_log(widen(z))); }
FUNCTION log10(complex64 z) {
  const Wide w = wide_log(widen(z));
  return narrow(Wide{w.re / 2.302585092994046, w.im / 2.302585092994046});
}
FUNCTION log1p(complex64 z) {
  const Wide w = widen(z);
  return narrow(Wide{0.5 * ::log1p(2.0 * w.re + w.re * w.re + w.im * w.im), ::atan2(w.im, 1.0 + w.re)});
}
FUNCTION log2(complex64 z) {
  const Wide w = wide_log(widen(z));
  return narrow(Wide{w.re / 0.6931471805599453, w.im / 0.6931471805599453});
}
TRUTH logical_not(complex64 z) { return z.re == 0.0f && z.im == 0.0f; }
COMPLEX negative(complex64 z) { return complex64{-z.re, -z.im}; }
REAL real(complex64 z) { return z.re; }
FUNCTION reciprocal(complex64 z) { return narrow(one() / widen(z)); }
COMPLEX round(complex64 z) { return complex64{::rintf(z.re), ::rintf(z.im)}; }
FUNCTION rsqrt(complex64 z) { return narrow(one() / wide_sqrt(widen(z))); }
FUNCTION sigmoid(complex64 z) {
  const Wide w = widen(z);
  if (w.re >= 0.0) return narrow(one() / (one() + wide_exp(-w)));
  const Wide e = wide_exp(w);
  return narrow(e / (one() + e));
}
FUNCTION sign(complex64 z) {
  const Wide w = widen(z);
  const float64 n = ::hypot(w.re, w.im);
  return n == 0.0 ? complex64{0.0f, 0.0f} : narrow(Wide{w.re / n, w.im / n});
}
FUNCTION sin(complex64 z) {
  const Wide w = widen(z);
  return narrow(Wide{::sin(w.re) * ::cosh(w.im), ::cos(w.re) * ::sinh(w.im)});
}
FUNCTION sinh(complex64 z) {
  const Wide w = widen(z);
  return narrow(Wide{::sinh(w.re) * ::cos(w.im), ::cosh(w.re) * ::sin(w.im)});
}
FUNCTION sqrt(complex64 z) { return narrow(wide_sqrt(widen(z))); }
FUNCTION tan(complex64 z) { return narrow(turned_back(wide_tanh(turned(widen(z))))); }
FUNCTION tanh(complex64 z) { return narrow(wide_tanh(widen(z))); }

// Two operands. Products are rounded as written.
COMPLEX add(complex64 a, complex64 b) { return complex64{a.re + b.re, a.im + b.im}; }
COMPLEX multiply(complex64 a, complex64 b) {
  return complex64{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
COMPLEX square(complex64 z) { return multiply(z, z); }
COMPLEX subtract(complex64 a, complex64 b) { return complex64{a.re - b.re, a.im - b.im}; }
FUNCTION divide(complex64 a, complex64 b) {
  const Wide x = widen(a), y = widen(b);
  return narrow(y.im == 0.0 ? Wide{x.re / y.re, x.im / y.re} : x / y);
}
// By real part and then by imaginary part.
TRUTH less(complex64 a, complex64 b) { return a.re < b.re || (a.re == b.re && a.im < b.im); }
TRUTH equal(complex64 a, complex64 b) { return a.re == b.re && a.im == b.im; }
TRUTH not_equal(complex64 a, complex64 b) { return !equal(a, b); }
TRUTH greater(complex64 a, complex64 b) { return less(b, a); }
TRUTH greater_equal(complex64 a, complex64 b) { return less(b, a) || equal(a, b); }
TRUTH less_equal(complex64 a, complex64 b) { return less(a, b) || equal(a, b); }
FUNCTION logaddexp(complex64 a, complex64 b) {
  const bool first = a.re > b.re;
  const Wide high = widen(first ? a : b), low = widen(first ? b : a);
  if (high.re == bits_as<float64>(0xfff0000000000000ull)) return narrow(high);
  return narrow(high + wide_log(one() + wide_exp(low - high)));
}
// The one that is NaN if either is.
COMPLEX maximum(complex64 a, complex64 b) { return isnan(a) || (!isnan(b) && !less(a, b)) ? a : b; }
COMPLEX minimum(complex64 a, complex64 b) { return isnan(a) || (!isnan(b) && !less(b, a)) ? a : b; }
FUNCTION power(complex64 a, complex64 b) {
  const Wide x = widen(a), y = widen(b);
  if (y.re == 0.0 && y.im == 0.0) return complex64{1.0f, 0.0f};
  if (x.re == 0.0 && x.im == 0.0) {
    const float32 r = y.re > 0.0 ? 0.0f : bits_as<float32>(0x7fc00000u);
    return complex64{r, r};
  }
  return narrow(wide_exp(y * wide_log(x)));
}

#undef WIDE
#undef COMPLEX
#undef FUNCTION
#undef TRUTH
#undef REAL

}  // namespace complex
