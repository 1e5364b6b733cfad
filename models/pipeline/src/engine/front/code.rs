//! Uops from code: fetch or predecoder, decoders and microcode, beside the cache of decoded uops.

use crate::block::cache_plan::CachePlan;
use crate::block::stream::Stream;
use crate::core::choice::FetchKind;
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Queued, Source};
use crate::engine::front::decode::Decode;
use crate::engine::front::fetch::Fetch;
use crate::engine::front::microcode::{Did, Microcode};
use crate::engine::front::predecode::Predecode;
use crate::engine::front::sink::Sink;
use crate::engine::front::uop_cache::UopCache;
use std::collections::VecDeque;

/// The unit that finds instructions.
#[derive(Debug)]
enum Finder<'a> {
    Predecode(Predecode<'a>),
    Fetch(Fetch<'a>),
}

/// The units that make uops of code, and the queue of instructions between them.
#[derive(Debug)]
pub struct Code<'a> {
    finder: Finder<'a>,
    queue: VecDeque<Queued>,
    decode: Decode<'a>,
    microcode: Microcode<'a>,
    cache: UopCache<'a>,
}

impl<'a> Code<'a> {
    /// About to deliver the first instruction; `queue` is an empty one.
    pub fn new(stream: Stream<'a>, params: &'a Params, ablation: &Ablation, queue: VecDeque<Queued>) -> Code<'a> {
        let plan = &stream.cut.plan;
        Code {
            finder: if params.front_end.fetch == FetchKind::Predecoded {
                Finder::Predecode(Predecode::new(stream, params, ablation, plan))
            } else {
                Finder::Fetch(Fetch::new(stream, params, ablation, plan))
            },
            queue,
            decode: Decode::new(stream, params),
            microcode: Microcode::new(params),
            cache: UopCache::new(stream, params, ablation, plan),
        }
    }

    /// A cycle; the unit that feeds rename from then on, if it changed.
    pub fn cycle<O: Observer>(&mut self, plan: &CachePlan, sink: &mut Sink<'_, O>) -> Option<Source> {
        let cached = self.cache.cycle(plan, &mut self.microcode, sink);
        let cached = cached.then_some(Source::UopCache);
        // The unit that finds instructions works ahead of the decoders, across what is cached,
        // but only while they are in use.
        let decoded = match &mut self.finder {
            Finder::Predecode(predecode) => {
                // It sees the queue as it is before this cycle's decoding.
                if !self.cache.active() {
                    predecode.cycle(plan, sink.now, &mut self.queue, sink.observer);
                }
                self.decode(plan, sink)
            }
            Finder::Fetch(_) => {
                let decoded = self.decode(plan, sink);
                if let (Finder::Fetch(fetch), false) = (&mut self.finder, self.cache.active()) {
                    fetch.cycle(plan, sink.now, &mut self.queue, sink.observer);
                }
                decoded
            }
        };
        decoded.or(cached)
    }

    /// Microcode or decoders; the unit that feeds rename from then on, if it changed.
    fn decode<O: Observer>(&mut self, plan: &CachePlan, sink: &mut Sink<'_, O>) -> Option<Source> {
        match self.microcode.cycle(self.cache.active(), sink) {
            Did::Switched => return None,
            Did::Sent => return Some(Source::Microcode),
            Did::Nothing if self.cache.active() => return None,
            Did::Nothing => {}
        }
        let found = self.decode.cycle(plan, &mut self.queue, &mut self.microcode, sink);
        if let Some(at) = found.cached_from {
            self.cache.take_over(plan, at);
        }
        found.feeds
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, plan: &CachePlan, into: &mut Fingerprint) {
        for q in &self.queue {
            let ready = into.until(q.ready);
            into.add(u64::from(q.inst) << 40 | into.ahead(q.iteration) << 8 | ready);
        }
        into.add(0xdef);
        match &self.finder {
            Finder::Predecode(predecode) => predecode.fingerprint(into),
            Finder::Fetch(fetch) => fetch.fingerprint(into),
        }
        self.microcode.fingerprint(into);
        self.cache.fingerprint(plan, into);
    }

    /// Give the queue back.
    pub fn into_queue(self) -> VecDeque<Queued> {
        self.queue
    }
}
