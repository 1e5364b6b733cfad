//! The division of a block's code, at its offset, into fetch windows and lines of the uop cache.
//!
//! All that a machine reads of a block's place stands here, and nothing that it does not read: where
//! the cuts of two places are equal, so are the simulations.

use crate::block::cache_plan::CachePlan;
use crate::block::jumps::{self, Found};
use crate::block::{targets, Block, Inst, Notion};
use crate::core::choice::FetchKind;
use crate::core::params::Params;

/// Blocks of code that an instruction lies in, counted from that of the first one that is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub start: u32,
    pub opcode: u32,
    pub end: u32,
}

/// A block's code, cut by the boundaries of a core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The content of the uop cache.
    pub plan: CachePlan,
    /// Whether the loop buffer holds it.
    pub buffered: bool,
    /// Cycles that the taken branch of a loop loses by the target buffers.
    pub bubble: u32,
    /// What the predictor finds behind its instructions, where it finds targets ahead.
    pub jumps: Vec<Found>,
    /// Code offset of copies that follow each other.
    pub(crate) first: u32,
    /// Bytes of the blocks of code that instructions are found in.
    pub(crate) bytes: u32,
    /// Those of each instruction, if any is decoded each time and stays where it is.
    windows: Vec<Window>,
}

impl Cut {
    /// Cut a block where it lies.
    pub fn new(block: &Block, params: &Params) -> Cut {
        let plan = CachePlan::new(block, params);
        let bytes = match params.front_end.fetch {
            FetchKind::Predecoded => params.predecode.block_bytes,
            FetchKind::Blocks => params.fetch.block_bytes,
        };
        if holds(block, params, &plan) {
            return Cut {
                plan: plan.without_lines(),
                buffered: true,
                bubble: 0,
                jumps: Vec::new(),
                first: 0,
                bytes,
                windows: Vec::new(),
            };
        }
        let moves = block.notion == Notion::Unrolled;
        Cut {
            windows: if moves {
                Vec::new()
            } else {
                windows(block, &plan, bytes)
            },
            plan: plan.counted(params),
            buffered: false,
            bubble: targets::bubble(block, params),
            jumps: jumps::of(block, params),
            first: if moves { block.code_offset } else { 0 },
            bytes,
        }
    }

    /// Blocks of code of an instruction; `None` if it lies elsewhere in each iteration.
    #[inline]
    pub(crate) fn window(&self, inst: u32) -> Option<&Window> {
        self.windows.get(inst as usize)
    }
}

/// Blocks of code of the instructions that are decoded each time.
fn windows(block: &Block, plan: &CachePlan, bytes: u32) -> Vec<Window> {
    if plan.complete() {
        return Vec::new();
    }
    let mut first = None;
    let insts = (0..).zip(&block.insts);
    let window = |(n, inst): (u32, &Inst)| {
        if !plan.decoded(n) {
            return Window::default();
        }
        let at = block.code_offset + inst.offset;
        let first = *first.get_or_insert(at / bytes);
        let of = |byte: u32| ((at + byte) / bytes).wrapping_sub(first);
        Window {
            start: of(0),
            opcode: of(inst.opcode_at),
            end: of(inst.len - 1),
        }
    };
    insts.map(window).collect()
}

/// Whether a core's loop buffer holds a loop.
fn holds(block: &Block, params: &Params, plan: &CachePlan) -> bool {
    let uops = block.fused.len() as u32;
    let p = &params.loop_buffer;
    // Unbalanced pushes and pops keep a loop out, and so do high bytes that rename knows apart.
    p.enabled
        && block.notion == Notion::Loop
        && plan.complete()
        && (1..=p.uops).contains(&uops)
        && (uops <= p.crossing_uops || plan.regions() <= 1)
        && block.insts.iter().all(|i| i.ms == 0)
        && block.stack == 0
        && !block.writes_high_bytes()
}
