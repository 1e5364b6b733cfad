//! Pipeline parameters of a core: their names, meanings, units and defaults.
use crate::core::{choice::*, declare::params, value::Place, value::UNLIMITED};
params! {
    front_end {
        /// `real`, or `ideal`: the queue in front of rename is always full.
        mode: word[Mode] = Some(Mode::Real),
        /// `predecoded` or `blocks`.
        fetch: word[FetchKind] = None,
    }
    predecode {
        /// Bytes of an aligned block handled per cycle.
        block_bytes: int[4..=64] = Some(16),
        /// Instructions per cycle.
        width: int[1..=64] = Some(5),
        /// Instructions that the queue behind it holds.
        queue: int[1..=4096] = Some(20),
        /// Cycles until an instruction can be decoded.
        delay: int[0..=100] = Some(3),
        /// Stall of a length-changing prefix, cycles.
        lcp_cycles: int[0..=100] = Some(3),
        /// Stall when a full group is followed by an instruction that crosses the block.
        cross_cycles: int[0..=100] = Some(1),
    }
    fetch {
        /** Bytes of an aligned block fetched per cycle. */ block_bytes: int[4..=64] = Some(32),
        /** Fetched instructions that wait for decode. */ queue: int[1..=4096] = Some(16),
        /** Lost cycles of a taken branch. */ taken_bubble: int[0..=100] = Some(0),
    }
    decode {
        /// Instructions per cycle.
        width: int[1..=64] = Some(4),
        /// Whether an instruction that could fuse may use the last decoder.
        fusible_last: flag = Some(false),
        /// Pop of rsp or r12: `any` decoder, the `first` of a group, or it is `alone` from there on.
        pop_r12: word[PopR12] = Some(PopR12::Any),
        /// Whether a branch ends the group of a cycle.
        branch_ends: flag = Some(true),
        /// Cycles lost to switch to the microcode sequencer and back.
        microcode_cycles: int[0..=100] = Some(2),
        /// Uops that the microcode sequencer emits per cycle.
        microcode_width: int[1..=64] = Some(4),
    }
    uop_cache {
        /// `region`, `entry` or `none`.
        rule: word[CacheRule] = None,
        /// Bytes of the aligned region that an entry covers.
        region_bytes: int[4..=64] = Some(32),
        /// Lines per region.
        lines: int[1..=64] = Some(3),
        /// Uops per line.
        line_uops: int[1..=64] = Some(6),
        /// Uops per cycle.
        width: int[1..=64] = Some(4),
        /// Regions or entries read per cycle.
        reads: int[1..=64] = Some(1),
        /// Whether unrolled copies are taken to be in the cache (rule `entry` only).
        unrolled: flag = Some(false),
        /// Whether an instruction with a 64-bit immediate is the last that a cycle delivers.
        wide_ends: flag = Some(false),
        /// Behind which taken branches a cycle reads on: `none`, `all`, or one of the `others` than the branch that was taken last; `pairs`: a jump ahead to another region and the next one are one.
        joins: word[Joins] = Some(Joins::None),
        /// Stall of a switch to microcode, cycles.
        microcode_stall: int[0..=100] = Some(4),
        /// Whether a branch, or the pair that it is fused in, is of the region that it ends in.
        branch_by_end: flag = Some(false),
        /// Whether a cycle reads lines of one region only.
        one_region: flag = Some(false),
        /// Whether regions that meet within a branch, or within what it is fused with, are found one a cycle.
        cut_branch_apart: flag = Some(false),
        /// Whether both halves of an aligned 64 bytes must qualify.
        pairs: flag = Some(false),
        /// Whether a branch that touches a 32-byte boundary keeps its region out.
        branch_erratum: flag = Some(false),
    }
    loop_buffer {
        /// Whether small loops are replayed from the queue in front of rename.
        enabled: flag = Some(false),
        /// Uops that it holds.
        uops: int[0..=4096] = Some(0),
        /// Uops of a loop that is held although its code lies in more than one region of the uop cache.
        crossing_uops: limit[0..=4096] = Some(UNLIMITED),
        /// Unrolling: `[from, to, times]` by uops of the loop.
        unroll: triples = Some(&[]),
    }
    rename {
        /// Fused uops per cycle.
        width: int[1..=64] = None,
        /// Instructions per cycle.
        instructions: limit[1..=1000] = Some(UNLIMITED),
        /// Integer uops per cycle that need an arithmetic port.
        alu_uops: limit[1..=1000] = Some(UNLIMITED),
        /// Branches per cycle.
        branches: limit[1..=1000] = Some(UNLIMITED),
        /// Uops that wait in front of rename.
        queue: int[1..=4096] = None,
        /// Slots for eliminated moves of general-purpose registers.
        move_slots_gpr: limit[0..=1000] = Some(0),
        /// Slots for eliminated moves of vector registers.
        move_slots_vec: limit[0..=1000] = Some(0),
        /// Constant additions done here: none if 0, else the largest sum kept.
        immediate_add_limit: int[0..=65536] = Some(0),
        /// Whether rename waits until the schedulers have room for a full group.
        whole_groups: flag = Some(false),
        /// Whether an explicit use of the stack pointer after push or pop costs a uop.
        stack_sync: flag = Some(false),
    }
    scheduler {
        /// Uops that wait for execution.
        entries: int[1..=4096] = None,
        /// Least cycles from rename to start.
        delay: int[0..=100] = Some(5),
        /// Cycles from the least start on in which a last operand is noticed a cycle late.
        late_wakeup: int[0..=2] = Some(0),
    }
    ports {
        /// One character a port.
        names: text = None,
        /// `issue_slots`, `least_loaded` or `at_dispatch`.
        assign: word[Assign] = None,
        /// Difference in waiting uops at which both choices are the same port.
        imbalance: int[0..=1000] = Some(3),
        /// Which port each of four issue slots takes: `0` the least loaded one, `1` the second, `2` the third; of those but the least loaded `h` the one of the highest number, `l` of the lowest.
        slots: text = Some("0101"),
        /// The same where there are two ports to choose from.
        slots_of_two: text = Some("0101"),
        /// `high` or `low`: which port wins a tie.
        tie: word[Tie] = Some(Tie::High),
        /// What advances the issue slot: `slots`, or `computing` uops only.
        position: word[Counted] = Some(Counted::Slots),
        /// Cycles by which what rename knows of uops that started is old.
        counts_age: int[0..=2] = Some(0),
        /// Ports that load.
        load: text = None,
        /// Ports that compute store addresses.
        store_address: text = None,
        /// Ports that store data.
        store_data: text = None,
        /// Whether uops for one of two load ports take them in turn.
        load_turns: flag = Some(false),
        /// Ports of a stack-pointer update.
        alu: text = None,
        /// Those of a branch's ports that take it if it is taken; empty: all of them.
        taken_branch: text = Some(""),
    }
    memory {
        /// Load latency, general-purpose, where the table lists none from the address; where it does, and the instruction computes too, the part of it that is the load's.
        load_cycles: int[1..=1000] = Some(5),
        /// Cycles of putting what a load of an element loads into its vector, AArch64.
        element_cycles: int[1..=100] = Some(2),
        /// The same of vectors.
        load_vector_cycles: int[1..=1000] = Some(6),
        /// The same of 256 bits.
        load_256_cycles: int[1..=1000] = Some(7),
        /// Cycles saved if the base came from a load and there is no index.
        pointer_chase_gain: int[0..=100] = Some(0),
        /// Their displacements, from 0 to below this, bytes.
        pointer_chase_reach: int[1..=1_000_000] = Some(2048),
        /// From the store's data to the load's result, same address; at least a cycle for each.
        forward_cycles: int[2..=1000] = Some(5),
        /// Whether a load of a part of what a store wrote is forwarded too.
        forward_parts: flag = Some(false),
        /// The same if the load reads more than the store wrote, or from when the store is in the cache if it waits for that; 0: as if they had not met.
        failed_forward_cycles: int[0..=1000] = Some(0),
        /// Loads that rename knows to read what a store stores: `none`, those addressed by the `stack` pointer or any `base` alone, `any`.
        renames: word[Renames] = Some(Renames::None),
        /// Loads of a loop or call that it knows by any address, as predicted from turns before; where there are more, none.
        renamed_in_loops: int[0..=1000] = Some(0),
        /// Of instructions that change memory, those whose load is one of them: `any`, or by a `constant`.
        renamed_updates: word[Updates] = Some(Updates::Any),
        /// Cycles of such a load; 0: as an eliminated move.
        renamed_forward_cycles: int[0..=1000] = Some(0),
        /// Their displacement at most, from 0; 0: any, below 0 too.
        renamed_reach: int[0..=1_000_000] = Some(0),
        /// What their displacement must be a multiple of, bytes.
        renamed_step: int[1..=4096] = Some(8),
        /// Bytes that they must read at least.
        renamed_bytes: int[1..=64] = Some(1),
        /// Whether those that read the lower part of what was stored are among them.
        renamed_parts: flag = Some(false),
        /// Whether a load that no store can forward to waits until that store is in the cache.
        failed_forward_waits: flag = Some(false),
        /// The same as forward_cycles of an instruction that changes memory; 0: as of the others.
        forward_update_cycles: int[0..=1000] = Some(0),
        /// The same as forward_cycles of a load of a part; 0: as of the whole.
        forward_part_cycles: int[0..=1000] = Some(0),
        /// The same as forward_cycles of vector registers; 0: as of the others.
        forward_vector_cycles: int[0..=1000] = Some(0),
        /// Aligned bytes within which two stores that follow each other are written to the cache in one cycle, others one a cycle; 0: not modelled.
        commit_bytes: int[0..=4096] = Some(0),
        /// Whether a store that crosses the middle of those bytes is written alone.
        commit_middle: flag = Some(true),
        /// Cycles from a store of less than 4 bytes until another such is written to those bytes, unless it follows at once.
        commit_narrow_cycles: int[0..=100] = Some(0),
        /// Stores from rename until they are in the cache, if those cycles are modelled.
        store_queue: int[2..=1024] = Some(64),
        /// Bytes of a line of the cache.
        line_bytes: int[16..=128] = Some(64),
        /// Cycles that loads and stores pause for each line written to new addresses.
        stream_line_cycles: real[0.0..=1000.0] = Some(0.0),
        /// Cycles that a 256-bit access keeps its port.
        port_cycles_256: int[1..=100] = Some(1),
        /// The same of a 512-bit access.
        port_cycles_512: int[1..=100] = Some(1),
        /// Loads of a cycle that may read the same bank of the cache, unless they take a store's data.
        bank_loads: limit[1..=1000] = Some(UNLIMITED),
        /// Bytes of a bank; what lies a multiple of a line apart is in the same one.
        bank_bytes: int[2..=64] = Some(4),
        /// Bytes that base registers are taken to be off an aligned address.
        misaligned_by: int[0..=63] = Some(0),
        /// Aligned bytes that a load must not cross to keep its port for one cycle.
        split_load_bytes: int[1..=4096] = Some(64),
        /// Cycles more that it keeps its port if it does.
        split_load_cycles: int[0..=100] = Some(0),
        /// The same of stores.
        split_store_bytes: int[1..=4096] = Some(64),
        /// The same of stores.
        split_store_cycles: int[0..=100] = Some(0),
    }
    retire {
        /// Fused uops per cycle.
        width: int[1..=64] = None,
        /// Fused uops in flight.
        reorder_buffer: int[1..=1024] = None,
    }
    macro_fusion {
        /// Branches fused by whole class, `cmp_test` for compare and test only, `table` for the figures' own.
        pairs: word[Pairs] = Some(Pairs::None),
        /// Aligned bytes at whose start a branch does not fuse; 0: no limit.
        boundary_bytes: int[0..=64] = Some(0),
        /// Whether a nop shares the place of the instruction before it.
        nops: flag = Some(false),
    }
    taken_branch {
        /// Taken branches per cycle in the small target buffer.
        cycles: int[1..=100] = Some(1),
        /// Target buffer that the branch hits: 0 is the fastest.
        level: int[0..=2] = Some(0),
        /// Cycles that the second buffer takes longer than the fastest.
        second_bubble: int[0..=100] = Some(0),
        /// Cycles that the third buffer takes longer than the fastest.
        third_bubble: int[0..=100] = Some(0),
        /// Cycles lost where a branch leaves a loop of several iterations, though that is predicted; notion `call` alone.
        exit_bubble: int[0..=100] = Some(0),
        /// Aligned bytes of code within which branches are dense.
        dense_bytes: int[4..=64] = Some(32),
        /// Target buffer from which on a second branch in those bytes costs cycles.
        dense_level: int[0..=2] = Some(1),
        /// Those cycles.
        dense_bubble: int[0..=100] = Some(0),
    }
    mispredict {
        /// Cycles from the execution of a mispredicted branch to that of what follows it; notion `call` alone.
        cycles: int[0..=1000] = Some(16),
        /// Taken branches that the predictor remembers; notion `call` alone.
        history: int[1..=100_000] = Some(64),
    }
    string {
        /// Copy: cycles before the first byte.
        movs_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy by bytes as measured: `[bytes, cycles, cycles if the destination is not aligned]`; none: start-up and rate.
        movsb_cycles: triples = Some(&[]),
        /// The same of copies by 8 bytes to multiples of 8.
        movsq_cycles: triples = Some(&[]),
        /// The same of copies by 8 bytes to other places; both cycles are those.
        movsq_odd_cycles: triples = Some(&[]),
        /// Fill by 8 bytes to multiples of 8, as movsq_cycles.
        stosq_cycles: triples = Some(&[]),
        /// The same of fills to other places.
        stosq_odd_cycles: triples = Some(&[]),
        /// Copy by bytes: cycles before the first byte, if more.
        movsb_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy: bytes per cycle.
        movs_rate: real[0.0..=4096.0] = Some(0.0),
        /// Copy: bytes per cycle if the destination is not aligned; 0: unknown.
        movs_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Fill: cycles before the first byte.
        stos_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Fill: bytes per cycle.
        stos_rate: real[0.0..=4096.0] = Some(0.0),
        /// Fill: bytes per cycle if the destination is not aligned; 0: unknown.
        stos_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Copy: cycles more for each 64 bytes where a side is at no multiple of the element's size.
        movs_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// The same of fills.
        stos_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// Which sides of a copy count for that, and for movsq_odd_cycles.
        odd_side: word[Sides] = Some(Sides::Destination),
        /// Alignment of the destination that the plain rates need, bytes.
        alignment: int[1..=64] = Some(32),
        /// Repetitions assumed where the call gives none.
        count: int[0..=u32::MAX] = Some(64),
        /// Destination address mod 64 assumed where the call gives none.
        destination: int[0..=63] = Some(0),
    }
    serial {
        /** Cycles of `stac` and of `clac`. */ stac_clac: int[0..=10_000] = Some(0),
        /** Cycles of `lfence` once the pipeline is empty. */ lfence: int[0..=10_000] = Some(0),
        /** Cycles of `mfence`. */ mfence: int[0..=10_000] = Some(0),
    }
}
