//! The machine that runs a block cycle by cycle.

pub mod ablation;
pub mod backend;
mod balanced;
pub mod banks;
pub mod events;
pub mod filled_lines;
pub mod fingerprint;
pub mod flight;
pub mod front;
pub mod in_flight;
mod joint;
pub mod machine;
pub mod memory;
pub mod partial_stores;
pub mod ports;
pub mod ready;
pub mod redirect;
pub mod registers;
pub mod rename;
pub mod results;
pub mod retire;
pub mod schedule;
pub mod slots_of_schedulers;
pub mod steady;
pub mod store_entry;
pub mod uop_set_hash;
pub mod write_back;
