//! What the parameters that are texts choose between.

use crate::error::Error;

/// How uops are given to execution ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    /// At rename, by the number of waiting uops of each port, two choices a cycle.
    IssueSlots,
    /// At rename, always the port with the fewest waiting uops.
    LeastLoaded,
    /// When the uop starts: any free port.
    AtDispatch,
}

/// Where instructions come from outside of caches of decoded uops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchKind {
    /// Predecoder, instruction queue, one complex and several simple decoders.
    Predecoded,
    /// Aligned fetch blocks and equal decoders.
    Blocks,
}

/// Rule by which decoded uops are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRule {
    /// A region is cached only if its uops fit its lines (Intel).
    Region,
    /// An entry holds uops of one line and may be followed by another (AMD).
    Entry,
    /// No cache of decoded uops.
    None,
}

/// Which of several possible ports an issue slot takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By load: 0 is the least loaded one.
    Rank(usize),
    /// The one of the highest number but for the least loaded one.
    Highest,
    /// The one of the lowest number but for the least loaded one.
    Lowest,
}

impl Choice {
    /// Choices of the four issue slots from their letters.
    ///
    /// # Errors
    /// There are not four letters, or one is unknown.
    pub fn of_slots(name: &str, letters: &str) -> Result<[Choice; 4], Error> {
        let one = |c| match c {
            '0'..='2' => Some(Choice::Rank(c as usize - '0' as usize)),
            'h' => Some(Choice::Highest),
            'l' => Some(Choice::Lowest),
            _ => None,
        };
        let all: Option<Vec<Choice>> = letters.chars().map(one).collect();
        all.and_then(|c| c.try_into().ok())
            .ok_or_else(|| Error::Parameter(format!("{name} = {letters}: four of 0, 1, 2, h and l")))
    }
}
