//! The Python stubs of the native module. Placeholder until the generator is below.

use std::path::Path;

pub fn write(_root: &Path) -> Result<String, String> {
    Err("not yet".into())
}

pub fn check(_root: &Path) -> Result<String, String> {
    Err("not yet".into())
}
