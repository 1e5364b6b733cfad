//! Schedulers of some ports, as a parameter spells them.

use crate::core::params::Params;
use crate::error::Error;

/// Most schedulers of a core.
pub const POOLS: usize = 8;

impl Params {
    /// Read `scheduler.pools`: the ports of each scheduler, one bit each.
    ///
    /// # Errors
    /// Names the parameter and what it must be.
    pub fn pools(&self) -> Result<Vec<u32>, Error> {
        self.schedulers("scheduler.pools", &self.scheduler.pools)
    }

    /// Read `ports.shared` so.
    ///
    /// # Errors
    /// Names the parameter and what it must be.
    pub fn shared(&self) -> Result<Vec<u32>, Error> {
        self.schedulers("ports.shared", &self.ports.shared)
    }

    /// Read `ports.borrowed`: a port, and the one whose result bus it takes.
    ///
    /// # Errors
    /// Names the parameter and what it must be.
    pub fn borrowed(&self) -> Result<Vec<(u32, u32)>, Error> {
        let text = &self.ports.borrowed;
        let pair = |names: &str| match self.masks(names).as_deref() {
            Some(&[borrower, lender]) => Ok((borrower, lender)),
            _ => {
                let must = format!("{names} is not two of {}", self.ports.names);
                Err(Error::Parameter(format!("ports.borrowed = {text}: {must}")))
            }
        };
        text.split_whitespace().map(pair).collect()
    }

    /// Read `ports.joint`: an ALU, and the branch unit beside it; none where the text is empty.
    ///
    /// # Errors
    /// Names the parameter and what it must be.
    pub fn joint(&self) -> Result<Option<[u32; 2]>, Error> {
        let text = &self.ports.joint;
        match self.masks(text).as_deref() {
            Some([]) => Ok(None),
            Some(&[alu, branches]) => Ok(Some([alu, branches])),
            _ => {
                let must = format!("it is not two of {}", self.ports.names);
                Err(Error::Parameter(format!("ports.joint = {text}: {must}")))
            }
        }
    }

    fn schedulers(&self, name: &str, text: &str) -> Result<Vec<u32>, Error> {
        let wrong = |must: String| Error::Parameter(format!("{name} = {text}: {must}"));
        let mut out: Vec<u32> = Vec::new();
        for names in text.split_whitespace() {
            let ports = self.mask(names);
            let ports = ports.ok_or_else(|| wrong(format!("{names} is not among {}", self.ports.names)))?;
            if out.iter().any(|pool| pool & ports != 0) {
                return Err(wrong(format!("a port of {names} stands twice")));
            }
            out.push(ports);
        }
        if out.len() > POOLS {
            return Err(wrong(format!("at most {POOLS} words")));
        }
        Ok(out)
    }
}
