//! Names of places where work runs: devices, and the streams that order work on them.

use std::fmt;

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU.
    Gpu,
}

/// One device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Device {
    /// Which kind.
    pub kind: DeviceKind,
    /// Which one of its kind, from 0.
    pub index: u16,
}

impl Device {
    /// The host's processor.
    pub const CPU: Device = Device { kind: DeviceKind::Cpu, index: 0 };
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
        };
        write!(f, "Device({kind}, {})", self.index)
    }
}

/// A sequence of work on one device: what is put on it runs in that order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Stream {
    /// Number of the stream, unique in the process.
    pub index: u32,
    /// Where it runs.
    pub device: Device,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}, {})", self.device, self.index)
    }
}
