//! The instructions that an iteration executes: all of the code, or stretches of it that jumps join.

use crate::block::Notion;
use crate::error::Error;
use crate::isa::flow::Next;
use crate::isa::inst::{Branch, Decoded};
use crate::isa::{self, Isa};

/// Bytes of code at most that are executed in a row.
const MOST: usize = 1 << 16;

/// Bytes of code from the first to one past the last, that are executed in a row.
pub type Stretch = (u32, u32);

/// Instructions in the order in which they are executed.
#[derive(Clone, Debug)]
pub struct Path {
    /// The instructions, each at its place in the code.
    pub(crate) code: Vec<Decoded>,
    /// Whether control goes on elsewhere than behind it.
    pub(crate) jumps: Vec<bool>,
}

impl Path {
    /// The code that a block executes: the given stretches of a loop, else all that its jumps do not skip.
    ///
    /// # Errors
    /// As [`Path::of`] and [`Path::following_jumps`]; a block that is no loop has stretches.
    pub fn given(isa: Isa, bytes: &[u8], stretches: Option<&[Stretch]>, notion: Notion) -> Result<Path, Error> {
        match stretches {
            None => Path::following_jumps(isa, bytes, notion),
            Some(stretches) if notion == Notion::Loop => Path::of(isa, bytes, stretches),
            Some(_) => Err(Error::Block("a path of stretches is one of a loop".into())),
        }
    }

    /// The instructions of a loop in which conditional branches fall through and jumps forward within it are
    /// followed; all instructions of a block that is no loop.
    ///
    /// # Errors
    /// As [`Path::whole`].
    pub fn following_jumps(isa: Isa, bytes: &[u8], notion: Notion) -> Result<Path, Error> {
        fits(bytes.len())?;
        let whole = Path::whole(isa, bytes, notion);
        // Code that a jump skips may be none: only what follows the jumps tells.
        let straight = whole
            .as_ref()
            .is_ok_and(|path| !path.code.iter().rev().skip(1).any(is_jump));
        if notion != Notion::Loop || straight {
            return whole;
        }
        let (mut stretches, mut start, mut at) = (Vec::new(), 0, 0);
        while (at as usize) < bytes.len() {
            let (d, next) = isa::decode_at(isa, bytes, at as usize)?;
            at += u32::from(d.len);
            let Next::Jumps(target) = next else { continue };
            if is_jump(&d) && i64::from(at) <= target && target < bytes.len() as i64 {
                stretches.push((start, at));
                (start, at) = (target as u32, target as u32);
            }
        }
        if stretches.is_empty() {
            return whole;
        }
        stretches.push((start, at));
        Path::of(isa, bytes, &stretches)
    }

    /// All of a block's instructions in their order in memory; of a loop the last one jumps.
    ///
    /// # Errors
    /// The bytes do not decode, or a loop does not end in a branch.
    pub fn whole(isa: Isa, bytes: &[u8], notion: Notion) -> Result<Path, Error> {
        fits(bytes.len())?;
        let code = isa::decode(isa, bytes)?;
        let mut jumps = vec![false; code.len()];
        if notion == Notion::Loop {
            let branch = code.last().is_some_and(|d| d.branch != Branch::No);
            let last = jumps.last_mut().filter(|_| branch);
            *last.ok_or_else(|| Error::Block("a loop must end in a branch".into()))? = true;
        }
        Ok(Path { code, jumps })
    }

    /// The instructions of stretches, each from its first byte to one past its last, in the order in
    /// which a loop executes them.
    ///
    /// # Errors
    /// A stretch is not of whole instructions of the code, or control cannot go from one to the next.
    pub fn of(isa: Isa, bytes: &[u8], stretches: &[Stretch]) -> Result<Path, Error> {
        fits(
            stretches
                .iter()
                .map(|&(start, end)| end.saturating_sub(start) as usize)
                .sum(),
        )?;
        let (mut code, mut next) = (Vec::new(), Vec::new());
        for &(start, end) in stretches {
            if start >= end || end as usize > bytes.len() {
                let why = format!("no stretch of {} bytes of code: {start} to {end}", bytes.len());
                return Err(Error::Block(why));
            }
            let mut at = start;
            while at < end {
                let (d, follows) = isa::decode_at(isa, &bytes[..end as usize], at as usize)?;
                at += u32::from(d.len);
                code.push(d);
                next.push(follows);
            }
        }
        let jumps = (0..code.len()).map(|n| step(&code, &next, n));
        let jumps = jumps.collect::<Result<Vec<bool>, Error>>()?;
        if jumps.last() != Some(&true) {
            return Err(Error::Block("a loop must end in a branch".into()));
        }
        Ok(Path { code, jumps })
    }
}

/// Whether an instruction is an unconditional branch that is no call.
fn is_jump(d: &Decoded) -> bool {
    d.branch == Branch::Always && d.stack == 0
}

fn fits(executed: usize) -> Result<(), Error> {
    match executed {
        0 => Err(Error::Block("no code".into())),
        len if len > MOST => Err(Error::Block("more than 64 KiB of code".into())),
        _ => Ok(()),
    }
}

/// Whether an instruction jumps to the one that is executed after it, the first one after the last.
fn step(code: &[Decoded], next: &[Next], n: usize) -> Result<bool, Error> {
    let d = &code[n];
    let (to, behind) = (code[(n + 1) % code.len()].offset, d.offset + u32::from(d.len));
    if next[n].reaches(to, behind) {
        return Ok(d.branch == Branch::Always || to != behind);
    }
    let why = format!("control cannot go from {} at byte {} to byte {to}", d.form, d.offset);
    Err(Error::Block(why))
}
