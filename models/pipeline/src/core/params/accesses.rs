//! Parameters of loads, stores and what they take from each other.
use crate::core::{choice::*, declare::tables, value::UNLIMITED};
tables! {
    memory {
        /// Load latency, general-purpose, where the table lists none from the address; where it does, and the instruction computes too, the part of it that is the load's.
        load_cycles: int[1..=1000] = Some(5),
        /// Cycles that every load takes more whose data no store forwards: the mean wait for lines beyond the first-level cache.
        miss_cycles: int[0..=1000] = Some(0),
        /// Cycles of putting what a load of an element loads into its vector, AArch64.
        element_cycles: int[1..=100] = Some(2),
        /// The same of vectors.
        load_vector_cycles: int[1..=1000] = Some(6),
        /// The same of 256 bits.
        load_256_cycles: int[1..=1000] = Some(7),
        /// Cycles that a load takes more if its index is scaled, or if it has base, index and displacement, x86-64.
        complex_address_cycles: int[0..=100] = Some(0),
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
        /// Whether those of two bytes are among them.
        renamed_words: flag = Some(true),
        /// Whether those that read the lower part of what was stored are among them.
        renamed_parts: flag = Some(false),
        /// Whether a load that no store can forward to waits until that store is in the cache.
        failed_forward_waits: flag = Some(false),
        /// From the store's write into the cache to the result of a load that waits for it; 0: as failed_forward_cycles.
        failed_forward_wait_cycles: int[0..=1000] = Some(0),
        /// Whether a load does not wait whose lower part one store wrote, and whose rest no other store in flight.
        merges_lower: flag = Some(false),
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
        /// Whether one of the two may begin other such bytes than the store before it, and a store across them is written alone, in two cycles where it begins in others.
        commit_parts: flag = Some(false),
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
}
