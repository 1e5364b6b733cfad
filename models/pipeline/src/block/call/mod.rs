//! A block of the instructions that one call of a routine executes, each with what is known of it:
//! whether a branch is taken, which addresses are accessed, how often a string instruction repeats.

pub mod build;
pub mod code;
pub mod history;
mod memory;
mod pairs;
pub mod runs;
pub mod shorten;
pub mod steps;
