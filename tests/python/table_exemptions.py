"""Which table rows are exempt from which general test, and why; and where official MLX fails these tests.

The exemptions live in one place so that each carries its reason and none is forgotten.
"""

# Rows that replace special values by design (sign(nan) is 0 as in MLX), or that take complex numbers only.
OWN_SPECIAL_VALUES: frozenset = frozenset(("nan_to_num", "clip", "conjugate", "imag", "real", "sign"))

# Arguments beyond about 1e5 lose all accuracy in a fast range reduction; degrees overflows.
NO_HUGE: frozenset = frozenset(("sin", "cos", "tan", "degrees"))

# Tests that official MLX 0.32.4 fails and this engine passes, by the beginnings of their names; conftest.py
# expects them to fail there.
BEYOND_MLX: tuple[str, ...] = (
    # Computed in float32 inside.
    "test_forward[cos-float64",
    "test_forward[sin-float64",
    "test_forward[exp-float64",
    "test_forward[erf-float64",
    "test_forward[sigmoid-float64",
    "test_forward[logaddexp-float64",
    "test_forward[logsumexp",
    "test_forward[softmax",
    # Forward-mode rules that are missing, or that forget alpha.
    "test_jvp_is_transpose_of_vjp[diag]",
    "test_jvp_is_transpose_of_vjp[addmm[scaled]",
    "test_jvp_is_transpose_of_vjp[conv",
    # vmap over one operand of two goes wrong.
    "test_vmap[bitwise_",
    "test_vmap[left_shift",
    "test_vmap[right_shift",
    "test_vmap[addmm",
)
