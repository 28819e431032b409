//! Reductions along any axes but a row's, and positions of extremes.
