//! Whole calls: what they must share with loops, and what is known of them alone.

mod calling;
mod known;
mod loops;
mod memory;
