//! Units of the machine by themselves.

use crate::common::{bytes, core_with};
use loopwright_pipeline::block::cut::Cut;
use loopwright_pipeline::block::path::Path;
use loopwright_pipeline::block::position::Position;
use loopwright_pipeline::block::stream::Stream;
use loopwright_pipeline::block::{Block, Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::engine::ablation::Ablation;
use loopwright_pipeline::engine::events::Nobody;
use loopwright_pipeline::engine::filled_lines::Lines;
use loopwright_pipeline::engine::flight::{Held, Queued, Waiting, LATER};
use loopwright_pipeline::engine::front::fetch::Fetch;
use loopwright_pipeline::engine::front::loop_buffer::LoopBuffer;
use loopwright_pipeline::engine::front::microcode::{Did, Microcode, Routine};
use loopwright_pipeline::engine::front::predecode::Predecode;
use loopwright_pipeline::engine::front::sink::Sink;
use loopwright_pipeline::engine::memory::Memory;
use loopwright_pipeline::engine::results::Results;
use loopwright_pipeline::engine::retire::{Entries, Retire};
use loopwright_pipeline::engine::uop_set_hash::UopSetHash;
use std::collections::VecDeque;

fn block(core: &Core, hex: &str, notion: Notion, offset: u32) -> Block {
    let (code, strings) = (bytes(hex), StringUse::default());
    let path = Path::whole(core.params.isa, &code, notion).expect("a path");
    Block::new(path, code.len(), offset, notion, &core.params, &core.table, strings).expect("a block")
}

fn sink<'q>(uops: &'q mut VecDeque<Waiting>, observer: &'q mut Nobody, places: usize) -> Sink<'q, Nobody> {
    Sink {
        now: 0,
        places,
        uops,
        observer,
    }
}

#[test]
fn a_stream_follows_copies_in_memory_and_stays_in_a_loop() {
    let second = Position { iteration: 3, inst: 1 };
    let core = core_with("skylake", &[("uop_cache.rule", "none")]).unwrap();
    // Blocks of code of 16 bytes; those of a loop are counted from its first instruction's.
    for (notion, start) in [
        (Notion::Unrolled, (26 + 3 * 5 + 3) / 16),
        (Notion::Loop, (26 + 3) / 16 - 1),
    ] {
        let block = block(&core, "4801d875fb", notion, 26);
        let cut = Cut::new(&block, &core.params);
        let stream = Stream {
            block: &block,
            cut: &cut,
        };
        assert_eq!(stream.start(second), start);
        assert_eq!(stream.after(second), Position { iteration: 4, inst: 0 });
    }
}

#[test]
fn a_result_wakes_those_who_asked_and_no_others() {
    let mut results = Results::default();
    let (early, late) = (results.promise(3), results.promise(4));
    assert_eq!(results.ready(Held::Value(early)), LATER);
    assert_eq!(results.ask(Held::Value(early), 7, 1, 2), None);
    assert_eq!(results.ask(Held::Value(late), 8, 0, 0), None);
    let mut told = Vec::new();
    results.resolve(early, 20, |place, at, inst| told.push((place, at, inst)));
    assert_eq!(told, [(7, 22, 3)]);
    assert_eq!(results.ask(Held::Since(5, 6), 9, 0, 1), Some((6, 6)));
}

#[test]
fn a_result_that_a_register_holds_is_not_reused() {
    let mut results = Results::default();
    let value = results.promise(1);
    results.count(Held::Value(value), 1);
    results.resolve(value, 9, |_, _, _| {});
    assert_ne!(results.promise(2), value);
    assert_eq!(results.ask(Held::Value(value), 0, 0, 0), Some((9, 1)));
    results.count(Held::Value(value), -1);
    assert_eq!(results.promise(2), value);
}

// Of instructions of three bytes the eleventh has its opcode in a block before the one that it ends in.
#[test]
fn the_predecoder_takes_a_block_of_code_or_its_width_a_cycle() {
    let core = core_with("sandybridge", &[("predecode.width", "5"), ("predecode.queue", "32")]).unwrap();
    for (hex, each) in [("90", [5, 5, 5, 1, 5]), ("4801d84801d8", [5, 5, 0, 5, 1])] {
        let block = block(&core, hex, Notion::Unrolled, 0);
        let cut = Cut::new(&block, &core.params);
        let mut unit = Predecode::new(
            Stream {
                block: &block,
                cut: &cut,
            },
            &core.params,
            &Ablation::default(),
            &cut.plan,
        );
        let mut found = Vec::new();
        for now in 0..5 {
            let mut queue: VecDeque<Queued> = VecDeque::new();
            unit.cycle(&cut.plan, now, &mut queue, &mut Nobody);
            found.push(queue.len());
            assert!(queue
                .iter()
                .all(|q| q.ready == now + core.params.predecode.delay as i32));
        }
        assert_eq!(found, each, "{hex}");
    }
}

#[test]
fn fetch_ends_at_a_taken_branch_and_pauses() {
    let core = core_with(
        "neoverse-n1",
        &[("uop_cache.rule", "none"), ("fetch.taken_bubble", "2")],
    )
    .unwrap();
    // add x0, x0, x1; b to it.
    let block = block(&core, "0000018bffffff17", Notion::Loop, 0);
    let cut = Cut::new(&block, &core.params);
    let mut unit = Fetch::new(
        Stream {
            block: &block,
            cut: &cut,
        },
        &core.params,
        &Ablation::default(),
        &cut.plan,
    );
    let mut found = Vec::new();
    for now in 0..6 {
        let mut queue = VecDeque::new();
        unit.cycle(&cut.plan, now, &mut queue, &mut Nobody);
        found.push(queue.len());
    }
    assert_eq!(found, [2, 0, 0, 2, 0, 0]);
}

#[test]
fn microcode_pays_the_switch_and_sends_its_width() {
    let overrides = [("decode.microcode_cycles", "4"), ("decode.microcode_width", "4")];
    let core = core_with("skylake", &overrides).unwrap();
    let mut unit = Microcode::new(&core.params);
    let (mut uops, mut nobody) = (VecDeque::new(), Nobody);
    let mut sink = sink(&mut uops, &mut nobody, 64);
    assert_eq!(unit.cycle(false, &mut sink), Did::Nothing);
    let routine = Routine {
        next: 0,
        end: 6,
        iteration: 0,
    };
    unit.start(routine, false);
    let did: Vec<(Did, usize)> = (0..7)
        .map(|_| (unit.cycle(false, &mut sink), sink.uops.len()))
        .collect();
    let (switch, sent) = (Did::Switched, Did::Sent);
    let wanted = [
        (switch, 0),
        (switch, 0),
        (sent, 4),
        (sent, 6),
        (switch, 6),
        (switch, 6),
        (Did::Nothing, 6),
    ];
    assert_eq!(did, wanted);
}

#[test]
fn the_loop_buffer_starts_over_after_its_copies() {
    let core = core_with("haswell", &[("loop_buffer.unroll", "[[1, 4, 2]]")]).unwrap();
    let block = block(&core, "4801d8ffc975f9", Notion::Loop, 0);
    let cut = Cut::new(&block, &core.params);
    assert!(cut.buffered);
    let mut unit = LoopBuffer::new(&block, &core.params, &Ablation::default());
    let (mut uops, mut nobody) = (VecDeque::new(), Nobody);
    unit.cycle(&mut sink(&mut uops, &mut nobody, 8));
    let wraps: Vec<bool> = uops.iter().map(|u| u.wraps).collect();
    assert_eq!(wraps, [false, false, false, true, false, false, false, true]);
}

#[test]
fn slots_retire_in_order_and_only_when_done() {
    let core = core_with("skylake", &[]).unwrap();
    let block = block(&core, "4801d84801d9", Notion::Unrolled, 0);
    let mut unit = Retire::new(&block, &core.params, Entries::default());
    let first = unit.enter(0, 0, 1, 0);
    let second = unit.enter(1, 0, 1, 0);
    unit.started(second, 3);
    unit.cycle(5, &mut Nobody, |_, _| {});
    assert_eq!(unit.retired(), 0);
    unit.started(first, 7);
    unit.cycle(6, &mut Nobody, |_, _| {});
    assert_eq!(unit.retired(), 0);
    unit.cycle(7, &mut Nobody, |_, _| {});
    assert_eq!((unit.retired(), unit.completed()), (2, &[7][..]));
}

#[test]
fn stores_that_lie_together_reach_the_cache_in_one_cycle() {
    let core = core_with("redwoodcove", &[("memory.commit_bytes", "64")]).unwrap();
    // Two stores of 8 bytes in one line, and two that lie a line apart.
    for (hex, each) in [("48890748894708", [2, 0]), ("48890748894740", [1, 1])] {
        let block = block(&core, hex, Notion::Unrolled, 0);
        let mut unit = Memory::new(&block, &core.params);
        let mut results = Results::default();
        for store in 0..2 {
            unit.enter(store, 0, 0, &mut results);
            unit.retire(store, 0);
        }
        let mut written = [0, 0];
        for (now, count) in written.iter_mut().enumerate() {
            unit.cycle(now as i32, |_| *count += 1);
        }
        assert_eq!(written, each, "{hex}");
    }
}

#[test]
fn a_full_line_pauses_memory_for_its_cycles_on_average() {
    let lines = |cycles: &str| {
        let core = core_with("skylake", &[("memory.stream_line_cycles", cycles)]).unwrap();
        Lines::new(&core.params.memory)
    };
    let mut pausing = lines("0.625");
    let pauses: Vec<Vec<u32>> = (0..4).map(|_| pausing.write(32).collect()).collect();
    assert_eq!(pauses, [vec![], vec![0], vec![], vec![1]]);
    assert_eq!(lines("0").write(640).count(), 0);
}

#[test]
fn a_set_some_iterations_later_is_the_same() {
    let mut set = UopSetHash::default();
    let mut entered = Vec::new();
    for iteration in 0..5 {
        for uop in [3, 8] {
            let count = set.count(uop, iteration);
            set.enter(count, 2);
            entered.push(count);
        }
    }
    let whole = set.since(0);
    entered[..4].iter().for_each(|count| set.leave(*count, 2));
    let left = set.since(2);
    assert_ne!(left, whole);
    let mut other = UopSetHash::default();
    for iteration in 0..3 {
        let counts = [3, 8].map(|uop| other.count(uop, iteration));
        counts.iter().for_each(|count| other.enter(*count, 2));
    }
    assert_eq!(other.since(0), left);
    let count = other.count(8, 2);
    other.leave(count, 2);
    other.enter(count, 4);
    assert_eq!(other.since(0).0, left.0);
    assert_ne!(other.since(0).1, left.1);
}
