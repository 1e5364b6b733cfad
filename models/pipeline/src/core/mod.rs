//! What is known of a core: parameters and figures of instructions.

pub mod check;
pub mod choice;
pub mod figures;
pub mod inert;
pub mod params;
pub mod read;
