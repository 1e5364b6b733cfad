//! Whole calls: what they must share with loops, and what is known of them alone.

mod calling;
#[path = "../common/mod.rs"]
mod common;
mod known;
mod loops;
mod memory;
