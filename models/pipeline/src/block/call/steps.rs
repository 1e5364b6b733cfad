//! The instructions that a call executes, as a trace tells them.

use crate::block::split::Access;
use crate::error::Error;

/// Bytes of a step: place, repeats, load and store.
const BYTES: usize = 24;

/// An instruction executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Location in the code, bytes from its start.
    pub at: u32,
    /// Repetitions of a string instruction.
    pub repeats: u32,
    /// Its access.
    pub access: Access,
    /// Is a branch that goes another way than several times before.
    pub late: bool,
    /// Is a branch that is mispredicted.
    pub mispredicted: bool,
}

/// Read steps: for each its place and its repeats in 4 bytes, the addresses of its load and of its store in 8,
/// -1 for none, all of them with the lowest byte first.
///
/// # Errors
/// There are none, or the last one is not whole.
pub fn parse(bytes: &[u8]) -> Result<Vec<Step>, Error> {
    if bytes.is_empty() {
        return Err(Error::Block("a call without steps".into()));
    }
    if bytes.len() % BYTES != 0 {
        return Err(Error::Block(format!(
            "{} bytes of steps: each takes {BYTES}",
            bytes.len()
        )));
    }
    Ok(bytes.chunks_exact(BYTES).map(read).collect())
}

fn read(record: &[u8]) -> Step {
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|n| {
        let four = [0, 1, 2, 3].map(|byte| record[4 * n + byte]);
        u32::from_le_bytes(four)
    });
    let address = |low: u32, high: u32| {
        let whole = (u64::from(high) << 32 | u64::from(low)) as i64;
        (whole != -1).then_some(whole)
    };
    let access = Access {
        load: address(c, d),
        store: address(e, f),
    };
    Step {
        at: a,
        repeats: b,
        access,
        late: false,
        mispredicted: false,
    }
}
