//! The machine that runs a block cycle by cycle.

pub mod banks;
pub mod behind;
pub mod entry;
pub mod events;
pub mod fingerprint;
pub mod flight;
pub mod front;
pub mod gathered;
pub mod in_flight;
pub mod lines;
pub mod machine;
pub mod memory;
pub mod narrow;
pub mod ports;
pub mod ready;
pub mod redirect;
pub mod registers;
pub mod relief;
pub mod rename;
pub mod results;
pub mod retire;
pub mod schedule;
pub mod steady;
