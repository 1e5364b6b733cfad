//! What the parameters that are texts choose between, and lists of ports as masks.

use crate::core::params::Params;
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

impl Params {
    /// Bit mask of the named ports; `None` if one of them does not exist.
    pub fn mask(&self, list: &str) -> Option<u32> {
        list.chars().try_fold(0, |mask, c| {
            Some(mask | 1 << self.ports.names.chars().position(|p| p == c)?)
        })
    }

    /// Port assignment policy.
    ///
    /// # Errors
    /// The value is not one of the known policies.
    pub fn assign(&self) -> Result<Assign, Error> {
        match self.ports.assign.as_str() {
            "issue_slots" => Ok(Assign::IssueSlots),
            "least_loaded" => Ok(Assign::LeastLoaded),
            "at_dispatch" => Ok(Assign::AtDispatch),
            other => Err(Error::Parameter(format!("ports.assign = {other}: unknown"))),
        }
    }

    /// Kind of instruction fetch.
    ///
    /// # Errors
    /// The value is not one of the known kinds.
    pub fn fetch_kind(&self) -> Result<FetchKind, Error> {
        match self.front_end.fetch.as_str() {
            "predecoded" => Ok(FetchKind::Predecoded),
            "blocks" => Ok(FetchKind::Blocks),
            other => Err(Error::Parameter(format!("front_end.fetch = {other}: unknown"))),
        }
    }

    /// Rule of the uop cache.
    ///
    /// # Errors
    /// The value is not one of the known rules.
    pub fn cache_rule(&self) -> Result<CacheRule, Error> {
        match self.uop_cache.rule.as_str() {
            "region" => Ok(CacheRule::Region),
            "entry" => Ok(CacheRule::Entry),
            "none" => Ok(CacheRule::None),
            other => Err(Error::Parameter(format!("uop_cache.rule = {other}: unknown"))),
        }
    }
}
