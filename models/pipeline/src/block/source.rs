//! The parts of a block that do not depend on its offset: instructions, figures, accesses.

use crate::block::aliasing::{analyse, Accesses};
use crate::block::builder::Builder;
use crate::block::caveats;
use crate::block::path::Path;
use crate::block::uops::Case;
use crate::block::{Block, Notion, StringUse};
use crate::core::figures::{FigureTable, Figures};
use crate::core::params::Params;
use crate::error::Error;
use crate::isa::inst::{Branch, Decoded, VECTOR};
use std::borrow::Cow;

/// A block that lies nowhere yet.
#[derive(Debug)]
pub struct Source<'a> {
    params: &'a Params,
    notion: Notion,
    /// Bytes of code.
    len: u32,
    pub(crate) path: Path,
    pub(crate) rows: Vec<Cow<'a, Figures>>,
    pub(crate) accesses: Accesses,
    pub(crate) caveats: Vec<String>,
}

impl<'a> Source<'a> {
    /// Look up the figures of the instructions of so many bytes, and follow what they access.
    ///
    /// # Errors
    /// An instruction has no figures.
    pub fn new(
        path: Path,
        len: usize,
        notion: Notion,
        params: &'a Params,
        table: &'a FigureTable,
        strings: StringUse,
    ) -> Result<Source<'a>, Error> {
        let builder = Builder::new(len as u32, 0, notion, params);
        let code = &path.code;
        let mut rows = Vec::with_capacity(code.len());
        for (d, jumps) in code.iter().zip(&path.jumps) {
            let mut row = builder.figures(d, table, strings)?;
            if *jumps || d.branch == Branch::Always {
                builder.taken_ports(&mut row);
            }
            rows.push(row);
        }
        let load = params.mask(&params.ports.load).unwrap_or(0);
        let mut accesses = analyse(code, params.rename.move_slots_gpr > 0, &params.memory, |i| {
            let ports = &rows[i].shape.ports;
            ports.len() == 1 && ports[0] & !load == 0 && code[i].mems.iter().any(|m| m.read && m.bytes >= 4)
        });
        if notion == Notion::Loop {
            let loads = accesses.cases.iter().filter(|c| c.forwards[0].is_some()).count();
            Case::predict(&mut accesses.cases, loads, params.memory.renamed_in_loops);
        }
        let found = code.iter().zip(&rows).zip(&accesses.cases);
        let found = found.filter_map(|((d, row), case)| Some((caveats::of(d, row, case)?, d)));
        let caveats = caveats::sentences(params, found);
        Ok(Source {
            params,
            notion,
            len: len as u32,
            path,
            rows,
            accesses,
            caveats,
        })
    }

    /// The block at a code offset.
    ///
    /// # Errors
    /// It is too long.
    pub fn at(&self, code_offset: u32) -> Result<Block, Error> {
        self.builder(code_offset).build(self)
    }

    /// The instructions that fuse with the next one at a code offset: where these are the same,
    /// blocks differ in nothing but their offset.
    pub fn pairs(&self, code_offset: u32) -> Vec<bool> {
        let builder = self.builder(code_offset);
        (0..self.path.code.len())
            .map(|n| self.fuses_on(&builder, n) || self.absorbing(&builder, n).is_some())
            .collect()
    }

    /// Whether an instruction does its work in the uop of the vector instruction before it.
    pub(crate) fn joins(&self, n: usize, next: &Decoded) -> bool {
        let (pairs, d) = (&self.params.macro_fusion.dependent, &self.path.code[n]);
        if pairs.is_empty() || !d.mems.is_empty() || !next.mems.is_empty() {
            return false;
        }
        let name = |d: &Decoded| d.form.split(' ').next().unwrap_or_default().to_string();
        let pair = format!("{}+{}", name(d), name(next));
        let ([to], [also]) = (&d.writes[..], &next.writes[..]) else {
            return false;
        };
        let vector = (VECTOR..VECTOR + 32).contains(&to.1);
        vector
            && to.1 == also.1
            && next.reads.iter().any(|r| r.1 == to.1)
            && self.rows[n].shape.ports.len() == 1
            && pairs.split_whitespace().any(|known| known == pair)
    }

    /// The instruction that is executed after another and lies behind it.
    pub(crate) fn behind(&self, n: usize) -> Option<&Decoded> {
        self.path.code.get(n + 1).filter(|_| !self.path.jumps[n])
    }

    /// An instruction with its figures and what it accesses.
    pub(crate) fn known(&self, n: usize) -> (&Decoded, &Figures, Case) {
        (&self.path.code[n], self.rows[n].as_ref(), self.accesses.cases[n])
    }

    /// The operation that an instruction fuses with, a move or a load, where no branch takes that.
    pub(crate) fn absorbing(&self, builder: &Builder<'_>, n: usize) -> Option<&Decoded> {
        let next = self
            .behind(n)
            .filter(|next| builder.absorbs(&self.path.code[n], next))?;
        (!self.fuses_on(builder, n + 1)).then_some(next)
    }

    /// Whether an instruction fuses with the branch behind it, if one is there.
    pub(crate) fn fuses_on(&self, builder: &Builder<'_>, n: usize) -> bool {
        self.behind(n).is_some_and(|next| self.fuse(builder, n, next))
    }

    /// Whether an instruction fuses with the branch behind it.
    pub(crate) fn fuse(&self, builder: &Builder<'_>, n: usize, next: &Decoded) -> bool {
        builder.fuses(&self.path.code[n], &self.rows[n], next)
    }

    fn builder(&self, code_offset: u32) -> Builder<'a> {
        Builder::new(self.len, code_offset, self.notion, self.params)
    }
}
