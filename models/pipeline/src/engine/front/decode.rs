//! The decoders.

use crate::block::cache_plan::CachePlan;
use crate::block::position::Position;
use crate::block::stream::Stream;
use crate::core::choice::FetchKind;
use crate::core::params::{decode, Params};
use crate::engine::events::Observer;
use crate::engine::flight::{Queued, Source};
use crate::engine::front::microcode::{Microcode, Routine};
use crate::engine::front::sink::Sink;
use std::collections::VecDeque;

/// The decoders; they keep nothing from one cycle to the next.
#[derive(Debug)]
pub struct Decode<'a> {
    stream: Stream<'a>,
    p: &'a decode,
    /// Only the first is a complex one.
    unequal: bool,
}

/// The result of a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoded {
    /// The unit that feeds rename from now on, if that is known.
    pub feeds: Option<Source>,
    /// The position from which the uop cache delivers.
    pub cached_from: Option<Position>,
}

impl<'a> Decode<'a> {
    /// Decoders of a core.
    pub fn new(stream: Stream<'a>, params: &'a Params) -> Decode<'a> {
        Decode {
            stream,
            p: &params.decode,
            unequal: params.front_end.fetch == FetchKind::Predecoded,
        }
    }

    /// Decode for a cycle.
    pub fn cycle<O: Observer>(
        &self,
        plan: &CachePlan,
        queue: &mut VecDeque<Queued>,
        microcode: &mut Microcode,
        sink: &mut Sink<'_, O>,
    ) -> Decoded {
        let width = self.p.width;
        if !sink.fits(width) {
            return Decoded::default();
        }
        let mut found = Decoded::default();
        let mut used = 0;
        let mut limit = width;
        while used < limit {
            let Some(&head) = queue.front() else { break };
            if head.ready > sink.now {
                break;
            }
            let inst = &self.stream.block.insts[head.inst as usize];
            if inst.head && queue.get(1).is_none_or(|tail| tail.ready > sink.now) {
                break;
            }
            if self.unequal {
                let last = used + 1 == width;
                if used > 0 && inst.complex || last && inst.fusible && !self.p.fusible_last {
                    break;
                }
                if inst.complex {
                    limit = limit.min(inst.simple_after.saturating_add(1));
                }
            }
            queue.pop_front();
            if inst.head {
                queue.pop_front();
            }
            let split = inst.fused.end - inst.ms;
            for fused in inst.fused.start..split {
                sink.put(fused, head.iteration, Source::Decode);
            }
            used += 1;
            if inst.ms > 0 {
                let routine = Routine {
                    next: split,
                    end: inst.fused.end,
                    iteration: head.iteration,
                };
                microcode.start(routine, false);
            }
            let last = Position {
                iteration: head.iteration,
                inst: head.inst + u32::from(inst.head),
            };
            found.cached_from = if inst.taken {
                let target = self.stream.after(last);
                (!plan.decoded(target.inst)).then_some(target)
            } else {
                plan.switches_after(last.inst).then(|| self.stream.after(last))
            };
            if inst.ms > 0 || found.cached_from.is_some() || inst.branch && self.p.branch_ends {
                break;
            }
        }
        found.feeds = match used {
            0 => queue.is_empty().then_some(Source::Predecode),
            _ => Some(Source::Decode),
        };
        found
    }
}
