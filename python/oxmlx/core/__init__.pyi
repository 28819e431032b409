"""What type checkers see of `oxmlx.core`: the names of the native module."""

from oxmlx._core import *
