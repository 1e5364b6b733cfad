//! What is known of a core: parameters and figures of instructions.

pub mod check;
pub mod choice;
mod declare;
pub mod figures;
pub mod inert;
pub mod meaning;
pub mod params;
pub mod read;
mod value;
