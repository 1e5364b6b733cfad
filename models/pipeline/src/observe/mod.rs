//! Reports on a simulation: timeline, port usage, limits of a block.

pub mod bottleneck;
pub mod chains;
pub mod figures;
pub mod lift;
pub mod limits;
pub mod recorder;
pub mod timeline;
pub mod usage;
pub mod watch;
