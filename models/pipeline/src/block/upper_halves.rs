//! AVX-SSE transitions: some cores save the upper halves of vector registers before legacy SSE instructions, and
//! restore them before VEX instructions.

use crate::isa::inst::UpperHalves;

/// The upper halves of all vector registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// All zero.
    #[default]
    Clean,
    /// Some are written.
    Dirty,
    /// Saved aside, as a legacy instruction wrote a lower half.
    Saved,
}

impl State {
    /// The state behind an instruction, and whether a transition comes before it.
    pub(crate) fn behind(self, of: UpperHalves) -> (State, bool) {
        match (self, of) {
            (State::Saved, UpperHalves::Writes | UpperHalves::Uses) => (State::Dirty, true),
            (State::Saved, UpperHalves::Clears) => (State::Clean, true),
            (State::Dirty, UpperHalves::Keeps) => (State::Saved, true),
            (_, UpperHalves::Writes) => (State::Dirty, false),
            (_, UpperHalves::Clears) => (State::Clean, false),
            _ => (self, false),
        }
    }
}
