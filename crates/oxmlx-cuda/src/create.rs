//! Arrays from nothing: arange.
