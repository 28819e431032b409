from oxmlx._core import *
