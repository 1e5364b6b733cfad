//! Parameters of loads, stores and what they take from each other.
use crate::core::{choice::*, declare::tables, value::UNLIMITED};
tables! {
    memory {
        /// Load latency, general-purpose, where the table lists none from the address; where it does, and the instruction computes too, the part of it that is the load's.
        load_cycles: int[1..=1000] = Some(5),
        /// Extra cycles of each load that takes no forwarded data: the mean wait for lines beyond the first-level cache.
        miss_cycles: int[0..=1000] = Some(0),
        /// Cycles to insert the element that a load reads into its vector, AArch64.
        element_cycles: int[1..=100] = Some(2),
        /// The same for vectors.
        load_vector_cycles: int[1..=1000] = Some(6),
        /// The same for 256 bits.
        load_256_cycles: int[1..=1000] = Some(7),
        /// Extra cycles of a load whose index is scaled, or which has base, index and displacement, x86-64.
        complex_address_cycles: int[0..=100] = Some(0),
        /// Cycles saved if the base came from a load and there is no index.
        pointer_chase_gain: int[0..=100] = Some(0),
        /// Those loads have displacements from 0 to below this, bytes.
        pointer_chase_reach: int[1..=1_000_000] = Some(2048),
        /// From the store's data to the load's result, same address; at least a cycle for each.
        forward_cycles: int[2..=1000] = Some(5),
        /// Whether a load of a part of the stored bytes is also forwarded.
        forward_parts: flag = Some(false),
        /// The same if the load reads more than the store wrote, or, if it waits for the store commit, from then on; 0: as if the accesses did not overlap.
        failed_forward_cycles: int[0..=1000] = Some(0),
        /// Loads that rename knows to read what a store stores: `none`, those addressed by the `stack` pointer or any `base` alone, `any`.
        renames: word[Renames] = Some(Renames::None),
        /// Loads of a loop or call that are renamed by any address, as predicted from earlier iterations; none, if the code has more.
        renamed_in_loops: int[0..=1000] = Some(0),
        /// Read-modify-writes whose load is renamed: `any`, or those by a `constant`.
        renamed_updates: word[Updates] = Some(Updates::Any),
        /// Cycles of a renamed load; 0: as an eliminated move.
        renamed_forward_cycles: int[0..=1000] = Some(0),
        /// Largest displacement of a renamed load, from 0; 0: any, also a negative one.
        renamed_reach: int[0..=1_000_000] = Some(0),
        /// Displacements of renamed loads are multiples of this, bytes.
        renamed_step: int[1..=4096] = Some(8),
        /// Least size of a renamed load, bytes.
        renamed_bytes: int[1..=64] = Some(1),
        /// Whether loads of two bytes are renamed.
        renamed_words: flag = Some(true),
        /// Whether loads of the lower part of the stored bytes are renamed.
        renamed_parts: flag = Some(false),
        /// Whether a load that overlaps a store which cannot forward waits for the store commit.
        failed_forward_waits: flag = Some(false),
        /// From the store commit to the result of a load that waits for it; 0: as failed_forward_cycles.
        failed_forward_wait_cycles: int[0..=1000] = Some(0),
        /// Whether a load does not wait if one store wrote its lower part and no store in flight the rest.
        merges_lower: flag = Some(false),
        /// forward_cycles of a read-modify-write; 0: as of other loads.
        forward_update_cycles: int[0..=1000] = Some(0),
        /// forward_cycles of a load of a part of the stored bytes; 0: as of the whole.
        forward_part_cycles: int[0..=1000] = Some(0),
        /// forward_cycles of vector registers; 0: as of the others.
        forward_vector_cycles: int[0..=1000] = Some(0),
        /// Aligned bytes within which two successive stores commit in one cycle; others commit one a cycle; 0: not modelled.
        commit_bytes: int[0..=4096] = Some(0),
        /// Whether a store that crosses the middle of those bytes commits alone.
        commit_middle: flag = Some(true),
        /// Whether one of the two may begin other such bytes than the store before it, and a store across them is two, which commit in different cycles.
        commit_parts: flag = Some(false),
        /// Cycles more that a store at a known address takes to commit if it crosses the end of a page.
        commit_page_cycles: int[0..=1000] = Some(0),
        /// Cycles from the commit of a store of less than 4 bytes to that of the next such store to the same bytes, unless it follows at once.
        commit_narrow_cycles: int[0..=100] = Some(0),
        /// Entries of the store queue, from rename to commit, if store commit is modelled.
        store_queue: int[2..=1024] = Some(64),
        /// Bytes of a cache line.
        line_bytes: int[16..=128] = Some(64),
        /// Cycles that loads and stores pause for each line that is written for the first time.
        stream_line_cycles: real[0.0..=1000.0] = Some(0.0),
        /// Cycles for which a 256-bit access occupies its port.
        port_cycles_256: int[1..=100] = Some(1),
        /// The same for a 512-bit access.
        port_cycles_512: int[1..=100] = Some(1),
        /// Loads of a cycle that may read the same bank of the cache, unless they take a store's data.
        bank_loads: limit[1..=1000] = Some(UNLIMITED),
        /// Bytes of a bank; addresses a multiple of a line apart are in the same bank.
        bank_bytes: int[2..=64] = Some(4),
        /// Assumed offset of base registers from an aligned address, bytes.
        misaligned_by: int[0..=63] = Some(0),
        /// Aligned bytes; a load that crosses them is a split load.
        split_load_bytes: int[1..=4096] = Some(64),
        /// Extra cycles for which a split load occupies its port.
        split_load_cycles: int[0..=100] = Some(0),
        /// Cycles more until its result is known.
        split_load_delay: int[0..=100] = Some(0),
        /// The same of stores.
        split_store_bytes: int[1..=4096] = Some(64),
        /// The same of stores.
        split_store_cycles: int[0..=100] = Some(0),
    }
}
