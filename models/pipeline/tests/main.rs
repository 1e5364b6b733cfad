//! The simulator by its public interface: one program, since linking each file costs seconds.

mod architecture;
mod arm64;
mod bottlenecks;
mod calls;
mod caveats;
mod common;
mod figures;
mod icelake;
mod interface;
mod known_answers;
mod loop_offsets;
mod parameters;
mod paths;
mod robust;
mod schedulers;
mod units;
mod zen;
mod zen3;
