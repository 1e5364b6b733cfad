//! The machine that runs a block cycle by cycle.

pub mod eliminate;
pub mod events;
pub mod flight;
pub mod front;
pub mod machine;
pub mod memory;
pub mod ports;
pub mod ready;
pub mod rename;
pub mod retire;
pub mod schedule;
pub mod scratch;
pub mod steady;
pub mod values;
