//! AArch64 decoding.

use crate::error::Error;
use crate::inst::Decoded;

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first word that is no instruction.
pub fn decode(_code: &[u8]) -> Result<Vec<Decoded>, Error> {
    Err(Error::NoModel)
}
