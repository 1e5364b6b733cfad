//! From an x86 instruction's figures to the uops that are executed.

pub mod compute;
pub mod memory;
