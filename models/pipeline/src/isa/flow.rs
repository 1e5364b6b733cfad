//! Control flow from one instruction to the next.

/// The possible successors of an instruction, as offsets in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The instruction behind it.
    Falls,
    /// A target, or the instruction behind it.
    Either(i64),
    /// A target.
    Jumps(i64),
    /// Any instruction: a return, an indirect branch.
    Anywhere,
}

impl Next {
    /// Whether control can go on at a place, the instruction behind this one standing at another.
    pub fn reaches(self, place: u32, behind: u32) -> bool {
        match self {
            Next::Falls => place == behind,
            Next::Either(target) => place == behind || i64::from(place) == target,
            Next::Jumps(target) => i64::from(place) == target,
            Next::Anywhere => true,
        }
    }
}
