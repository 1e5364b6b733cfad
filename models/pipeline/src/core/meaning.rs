//! What texts among the parameters mean: choices, and lists of ports as masks.

use crate::core::choice::{Assign, CacheRule, FetchKind};
use crate::core::params::Params;
use crate::error::Error;

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
