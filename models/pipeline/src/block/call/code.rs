//! The instructions of a routine that its calls execute, decoded once for all of them.

use crate::block::builder::Builder;
use crate::block::call::steps::Step;
use crate::block::{Notion, StringUse};
use crate::core::figures::{FigureTable, Figures};
use crate::core::params::Params;
use crate::error::Error;
use crate::isa;
use crate::isa::flow::Next;
use crate::isa::inst::{Branch, Decoded, Special};
use std::borrow::Cow;
use std::collections::HashMap;

/// An instruction of the code.
#[derive(Debug)]
pub struct Known<'t> {
    pub(crate) d: Decoded,
    pub(crate) next: Next,
    /// Figures; those of a string instruction are of each step.
    pub(crate) row: Option<Cow<'t, Figures>>,
    /// Figures of a branch that is taken.
    pub(crate) taken: Option<Cow<'t, Figures>>,
    /// Loads what may be a pointer, and does nothing else.
    pub(crate) pointer_load: bool,
}

impl Known<'_> {
    /// Location of the instruction behind it.
    pub(crate) fn behind(&self) -> u32 {
        self.d.offset + u32::from(self.d.len)
    }

    /// Whether a branch is taken if control goes on at a place.
    pub(crate) fn jumps(&self, to: u32) -> bool {
        match self.d.branch {
            Branch::No => false,
            Branch::Always => true,
            Branch::Conditional(_) => to != self.behind(),
        }
    }
}

/// Instructions by their place.
#[derive(Debug)]
pub struct Code<'t> {
    bytes: usize,
    known: HashMap<u32, Result<Known<'t>, Error>>,
}

impl<'t> Code<'t> {
    /// The instructions of machine code that steps of calls are at.
    pub fn new<'s>(
        code: &[u8],
        steps: impl Iterator<Item = &'s Step>,
        params: &Params,
        table: &'t FigureTable,
    ) -> Code<'t> {
        let mut known = HashMap::new();
        for step in steps {
            known
                .entry(step.at)
                .or_insert_with(|| learn(code, step.at, params, table));
        }
        Code {
            bytes: code.len(),
            known,
        }
    }

    /// Bytes of code.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The instruction at a place that a step is at.
    pub(crate) fn at(&self, place: u32) -> Result<&Known<'t>, Error> {
        match self.known.get(&place) {
            Some(Ok(known)) => Ok(known),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::Decode(place as usize)),
        }
    }
}

fn learn<'t>(code: &[u8], at: u32, params: &Params, table: &'t FigureTable) -> Result<Known<'t>, Error> {
    if at as usize >= code.len() {
        let why = format!("a step at byte {at}, beyond the {} bytes of code", code.len());
        return Err(Error::Block(why));
    }
    let (d, next) = isa::decode_at(params.isa, code, at as usize)?;
    let builder = Builder::new(code.len() as u32, 0, Notion::Call, params);
    let string = matches!(d.special, Special::RepMovs(_) | Special::RepStos(_));
    let row = if string {
        None
    } else {
        Some(builder.figures(&d, table, StringUse::default())?)
    };
    let mut taken = row.clone().filter(|_| d.branch != Branch::No);
    if let Some(row) = &mut taken {
        builder.taken_ports(row);
    }
    let load = params.mask(&params.ports.load).unwrap_or(0);
    let ports = row.as_ref().map_or(&[][..], |r| &r.shape.ports);
    let loads = ports.len() == 1 && ports[0] & !load == 0;
    let pointer_load = loads && d.mems.iter().any(|m| m.read && m.bytes >= 4);
    Ok(Known {
        d,
        next,
        row,
        taken,
        pointer_load,
    })
}
