//! The decoders and the microcode sequencer.

use crate::engine::events::{Event, Observer};
use crate::engine::flight::{Position, Source, Waiting};
use crate::engine::machine::Machine;

/// State of the decoders.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Microcode: next fused uop, end and iteration.
    pub microcode: Option<(u32, u32, u32)>,
    /// Cycles that the decoders still stand still.
    pub stall: u32,
}

impl Machine<'_> {
    /// Decode for a cycle.
    pub fn decode_cycle<O: Observer>(&mut self, observer: &mut O) {
        if self.decode.stall > 0 {
            self.decode.stall -= 1;
            return;
        }
        let room = self.params.rename.queue as usize;
        if let Some((next, end, iteration)) = self.decode.microcode {
            self.microcode_cycle(next, end, iteration, observer);
            return;
        }
        let width = self.params.decode.width;
        if self.cache.active || self.idq.len() + width as usize > room {
            return;
        }
        let complex_first = self.mode.predecoded;
        let mut used = 0;
        let mut limit = width;
        while used < limit {
            let Some(&head) = self.queue.front() else { break };
            if head.ready > self.now {
                break;
            }
            let inst = &self.block.insts[head.inst as usize];
            if inst.head && self.queue.get(1).is_none_or(|tail| tail.ready > self.now) {
                break;
            }
            if complex_first {
                if used > 0 && inst.complex {
                    break;
                }
                let last = used + 1 == width;
                if last && inst.fusible && !self.params.decode.fusible_last {
                    break;
                }
                if inst.complex {
                    limit = limit.min(inst.simple_after.saturating_add(1));
                }
            }
            self.queue.pop_front();
            if inst.head {
                self.queue.pop_front();
            }
            let split = inst.fused.end - inst.ms;
            for fused in inst.fused.start..split {
                self.idq.push_back(Waiting {
                    fused,
                    iteration: head.iteration,
                    wraps: false,
                });
                observer.on(
                    self.now,
                    Event::Queued {
                        fused,
                        iteration: head.iteration,
                        from: Source::Decode,
                    },
                );
            }
            used += 1;
            if inst.ms > 0 {
                self.decode.microcode = Some((split, inst.fused.end, head.iteration));
                self.decode.stall = self.params.decode.microcode_cycles.div_ceil(2);
                break;
            }
            let last = head.inst + u32::from(inst.head);
            if inst.taken {
                self.resume_cache(head.iteration + 1);
            } else if self.plan.switches_after(last) {
                self.cache_from(self.after(Position {
                    iteration: head.iteration,
                    inst: last,
                }));
            }
            if self.cache.active || inst.branch && self.params.decode.branch_ends {
                break;
            }
        }
        if used > 0 {
            self.source = Source::Decode;
        } else if self.queue.is_empty() && !self.cache.active {
            self.source = Source::Predecode;
        }
    }

    /// Microcode for a cycle, from the decoders or from the uop cache.
    pub fn microcode_cycle<O: Observer>(&mut self, mut next: u32, end: u32, iteration: u32, observer: &mut O) {
        let room = self.params.rename.queue as usize;
        let mut sent = 0;
        while next < end && sent < self.params.decode.microcode_width && self.idq.len() < room {
            self.idq.push_back(Waiting {
                fused: next,
                iteration,
                wraps: false,
            });
            observer.on(
                self.now,
                Event::Queued {
                    fused: next,
                    iteration,
                    from: Source::Microcode,
                },
            );
            next += 1;
            sent += 1;
        }
        self.source = Source::Microcode;
        self.decode.microcode = if next < end {
            Some((next, end, iteration))
        } else {
            self.decode.stall = if self.cache.active {
                self.params.uop_cache.microcode_stall / 2
            } else {
                self.params.decode.microcode_cycles / 2
            };
            None
        };
    }
}
