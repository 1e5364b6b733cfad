//! What is known of the cores, from measurements and vendors' texts.

mod arm64;
mod execution;
mod firestorm;
mod front_end;
mod golden_cove;
mod ice_lake;
mod redwood_cove;
mod zen2;
