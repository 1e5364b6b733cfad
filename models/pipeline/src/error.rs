//! Errors of one block or one core.

use std::fmt;

/// The reason for no prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The core has no pipeline tables.
    NoModel,
    /// A parameter is missing, unknown or out of range.
    Parameter(String),
    /// A line of the table of figures cannot be read.
    Figures(String),
    /// The bytes are not valid code: offset of the first bad byte.
    Decode(usize),
    /// No figures for an instruction.
    Unknown(String),
    /// The block cannot be simulated as asked.
    Block(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoModel => write!(f, "no pipeline model for this core"),
            Error::Parameter(what) => write!(f, "parameter {what}"),
            Error::Figures(what) => write!(f, "instruction figures: {what}"),
            Error::Decode(at) => write!(f, "invalid code at byte {at}"),
            Error::Unknown(what) => write!(f, "no figures for {what}"),
            Error::Block(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {}
