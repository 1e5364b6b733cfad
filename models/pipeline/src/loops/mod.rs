//! Loops of a whole section of code, by its control flow: natural loops (a branch back to a head
//! that dominates it; Aho, Sethi, Ullman, Compilers, 10.4) that hold no other one.

mod blocks;
mod bodies;
mod dominators;
pub mod found;
mod path;
#[cfg(feature = "python")]
pub mod python;
mod reach;
mod returns;
pub mod search;
pub mod section;
mod steps;
