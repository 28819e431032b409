//! One error type for the whole engine, by the category that a caller can act on.
//!
//! The Python binding maps each kind to one exception class in one place; messages begin with the public
//! name of the operation in brackets, as MLX's users know them.

use std::fmt;

/// What went wrong, as far as a caller can act on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A value that the operation cannot take (ValueError).
    InvalidArgument,
    /// A type that the operation cannot take (TypeError).
    Type,
    /// An index beyond the end (IndexError).
    OutOfRange,
    /// An axis that the array does not have (a class that is both IndexError and ValueError).
    Axis,
    /// Not available for this combination (NotImplementedError and RuntimeError).
    Unsupported,
    /// A file that cannot be read or written (OSError and RuntimeError).
    Io,
    /// Memory is exhausted, after trimming (MemoryError and RuntimeError).
    OutOfMemory,
    /// The user interrupted (KeyboardInterrupt).
    Interrupted,
    /// A failure of the device or its libraries (RuntimeError).
    Backend,
}

/// An error with the operation that raised it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What a caller can act on.
    pub kind: ErrorKind,
    /// The public name of the operation; empty when no operation is to blame.
    pub op: &'static str,
    /// What is wrong and, where there is something to do, what to do.
    pub message: String,
}

/// Results with the engine's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of any kind.
    pub fn new(kind: ErrorKind, op: &'static str, message: impl Into<String>) -> Self {
        Error { kind, op, message: message.into() }
    }

    /// A value that the operation cannot take.
    pub fn invalid(op: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, op, message)
    }

    /// A bad axis, in MLX's words.
    pub fn axis(op: &'static str, axis: i64, ndim: usize) -> Self {
        Self::new(
            ErrorKind::Axis,
            op,
            format!("Axis {axis} is out of bounds for array with {ndim} dimensions."),
        )
    }

    /// Something this engine does not do.
    pub fn unsupported(op: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, op, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.op.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "[{}] {}", self.op, self.message)
        }
    }
}

impl std::error::Error for Error {}
