//! What is told of a simulation: timeline, use of ports, what limits a block.

pub mod bottleneck;
pub mod chains;
pub mod ideal;
pub mod limits;
pub mod timeline;
pub mod usage;
