//! Every parameter acts, has a range, and is refused where it could do nothing.

mod refused;
mod table;

use crate::common::{core_with, cycles_on};
use loopwright_pipeline::block::Notion::{self, Loop, Unrolled};
use loopwright_pipeline::core::params::Params;

/// Name, value, core, notion, code offset, code, and what else is set before and after.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    Notion,
    u32,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// For each parameter a block that takes more or fewer cycles with another value of it.
#[rustfmt::skip]
const ACTS: &[Case] = &[
    ("front_end.mode", "ideal", "skylake", Unrolled, 0, "415c", &[]),
    ("front_end.fetch", "blocks", "skylake", Unrolled, 0, "415c", &[]),
    ("predecode.block_bytes", "4", "skylake", Unrolled, 0, "66b80100", &[]),
    ("predecode.width", "1", "skylake", Unrolled, 0, "90", &[]),
    ("predecode.queue", "8", "skylake", Unrolled, 0, "90", &[]),
    ("predecode.delay", "8", "skylake", Unrolled, 0, "90", &[]),
    ("predecode.lcp_cycles", "1", "skylake", Unrolled, 0, "66b80100", &[]),
    ("predecode.cross_cycles", "2", "skylake", Unrolled, 0, "4889d84889c3", &[]),
    ("fetch.block_bytes", "4", "neoverse-n1", Loop, 0, "010040f9e2ffff54", &[]),
    ("fetch.queue", "1", "neoverse-n1", Loop, 0, "010040f9e2ffff54", &[]),
    ("fetch.taken_bubble", "1", "neoverse-n1", Loop, 0, "010040f9e2ffff54", &[]),
    ("decode.width", "1", "skylake", Unrolled, 0, "90", &[]),
    ("decode.fusible_last", "false", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("decode.pop_r12", "any", "skylake", Unrolled, 0, "415c", &[]),
    ("decode.branch_ends", "false", "skylake", Unrolled, 0, "4839d875004839d97500", &[]),
    ("decode.microcode_cycles", "40", "skylake", Unrolled, 0, "f3a4", &[("string.movs_startup", "16"), ("string.movsb_startup", "16")]),
    ("decode.microcode_width", "1", "zen2", Unrolled, 0, "480fa307", &[]),
    ("uop_cache.rule", "none", "skylake", Loop, 61, "48ffc975fb", &[]),
    ("uop_cache.region_bytes", "4", "skylake", Loop, 0, "39f27404ffc975f8", &[]),
    ("uop_cache.lines", "1", "skylake", Loop, 0, "740066b80100740090740090ffc975ef", &[]),
    ("uop_cache.line_uops", "1", "skylake", Loop, 0, "880f488b4708ffc975f6", &[]),
    ("uop_cache.constants", "unlimited", "zen3", Loop, 0, "9090904883c0054883c3054883c1054883c20549ffcf75e8", &[]),
    ("uop_cache.spare_constants", "0", "zen3", Loop, 0, "904883c0054883c3054883c1054883c2054883c60549ffcf75e6", &[]),
    ("uop_cache.crowded_constants", "[]", "zen4", Loop, 0, "4d89c84d89d3b901000000b901000000b901000000b901000000b90100000049ffcf75dc", &[]),
    ("uop_cache.short_constants", "true", "zen4", Loop, 0, "4d89c84d89c84d89c84d89c8488b5640488b5640488b5640488b564049ffcf75df", &[]),
    ("uop_cache.region_uops", "unlimited", "goldencove", Loop, 0, "90909090909090909090909090909090909090909090909090909090909090909090909049ffcf75d7", &[]),
    ("uop_cache.line_wide", "unlimited", "icelake", Loop, 0, "48b8f0debc9a7856341248b8f0debc9a7856341249ffcf75e7", &[]),
    ("uop_cache.long_constants", "unlimited", "goldencove", Loop, 0, "48bb010203040506070848bd010203040506070848be010203040506070849ffcf75dd", &[]),
    ("uop_cache.joins_short_loops", "false", "goldencove", Loop, 0, "48bb010203040506070848bd010203040506070848be010203040506070849ffcf75dd", &[]),
    ("uop_cache.line_rest_counts", "true", "goldencove", Loop, 0, "48bb010203040506070848bd01020304050607089090909090909048be010203040506070848bf010203040506070849ffcf75cc", &[]),
    ("uop_cache.width", "1", "skylake", Loop, 61, "48ffc975fb", &[]),
    ("uop_cache.reads", "1", "skylake", Loop, 61, "48ffc975fb", &[]),
    ("uop_cache.overlaps", "false", "zen4", Loop, 42, "89f089f389f189f289f789f089f389f189f289f749ffcf75e7", &[]),
    ("uop_cache.unrolled", "false", "zen2", Unrolled, 0, "90", &[]),
    ("uop_cache.wide_ends", "false", "sandybridge", Loop, 0, "48b8010203040506070848b80102030405060708ffc975e6", &[("loop_buffer.enabled", "false")]),
    ("uop_cache.wide_operands", "false", "sandybridge", Loop, 0, "813878563412813b78563412813978563412813a7856341249ffcf75e3", &[("loop_buffer.enabled", "false")]),
    ("uop_cache.joins", "all", "skylake", Loop, 0, "89f2412b565489f7c1ef0329ca39fa49ffcf75ec", &[]),
    ("uop_cache.microcode_stall", "64", "skylake", Loop, 0, "f77f08ffc975f7", &[]),
    ("uop_cache.branch_by_end", "false", "zen2", Loop, 53, "4889074883c70848ffc975f4", &[]),
    ("uop_cache.one_region", "true", "skylake", Loop, 61, "48ffc975fb", &[]),
    ("uop_cache.cut_branch_apart", "false", "goldencove", Loop, 53, "48890e4883c6084939f175f4", &[]),
    ("uop_cache.pairs", "false", "skylake", Loop, 0, "0f1f80000000000f1f80000000000f1f80000000000f1f800000000066906690909090909090909090909090909090909090909090909090ffc975c0", &[]),
    ("uop_cache.branch_erratum", "false", "skylake", Loop, 29, "48ffc975fb", &[]),
    ("loop_buffer.enabled", "true", "skylake", Loop, 0, "9090909090ffc975f7", &[]),
    ("loop_buffer.uops", "1", "sandybridge", Loop, 0, "9090909090909090909090909090ffc975ee", &[]),
    ("loop_buffer.crossing_uops", "1", "redwoodcove", Loop, 61, "48ffc975fb", &[("uop_cache.joins", "none")]),
    ("loop_buffer.unroll", "[[1,100,2]]", "haswell", Loop, 0, "9090909090ffc975f7", &[]),
    ("rename.entry_slots", "2", "goldencove", Loop, 0, "4431df4d89c1c5f976f389ef450f42c149ffcf75eb", &[]),
    ("rename.entry_stall", "0", "zen4", Loop, 0, "480fbe43014883c301f64442012075f0", &[]),
    ("rename.width", "1", "skylake", Unrolled, 0, "90", &[]),
    ("rename.instructions", "1", "skylake", Unrolled, 0, "90", &[]),
    ("rename.alu_uops", "1", "skylake", Loop, 61, "48ffc975fb", &[]),
    ("rename.branches", "1", "skylake", Loop, 0, "750075007500ffc975f6", &[]),
    ("rename.queue", "8", "skylake", Loop, 0, "90909090ffc975f8", &[]),
    ("rename.move_slots_gpr", "0", "skylake", Unrolled, 0, "4889d84889c3", &[]),
    ("rename.move_slots_vec", "0", "skylake", Loop, 0, "0f28c80f28d10f28da0f28c3ffc975f0", &[]),
    ("rename.move_slot_cycles", "0", "skylake", Unrolled, 0, "4889d84883c0014889c3", &[]),
    ("rename.move_slots_kept", "false", "broadwell", Loop, 32, "89f789ce89c14489da4983c004c1e2054431da4189c341c1eb1d4131d3c1ea0c4431d84189fb31d0418940fc4d39c875cf", &[]),
    ("rename.high_byte_merge", "", "skylake", Loop, 0, "88dc4801d049ffcf75f6", &[]),
    ("rename.high_byte_read_cycles", "0", "skylake", Loop, 0, "31c80fb6c449ffcf75f6", &[]),
    ("rename.result_first", "false", "sandybridge", Loop, 0, "f20f58ca660f2fc177f6", &[]),
    ("rename.immediate_add_limit", "2", "skylake", Unrolled, 0, "4883c001", &[]),
    ("rename.apart_places", "0", "goldencove", Loop, 0, "3b540d009090909049ffcf75f3", &[]),
    ("rename.apart", "1", "goldencove", Loop, 0, "3b540d003b540d009049ffcf75f2", &[]),
    ("rename.added_shift_cycles", "0", "goldencove", Loop, 0, "4883c50148d1e549ffcf75f4", &[]),
    ("rename.added_shift_again", "false", "goldencove", Loop, 0, "4883c508c4e3fbf0cd0349ffcf75f1", &[]),
    ("rename.pick_cycles", "0", "goldencove", Loop, 0, "85ff0f45f149ffcf75f6", &[]),
    ("rename.odd_bytes_kept", "false", "goldencove", Loop, 0, "440fb6d74b8d3c3249ffcf75f3", &[]),
    ("rename.whole_groups", "false", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("rename.index_alone", "true", "zen4", Loop, 0, "89f089f34189f3488934cd001000004889f749ffcf75e9", &[]),
    ("rename.stack_sync", "false", "skylake", Unrolled, 0, "504889e14889e24889e6", &[]),
    ("scheduler.entries", "4", "skylake", Unrolled, 0, "415c", &[]),
    ("scheduler.pools", "BSTMLKDEVW", "neoverse-n1", Unrolled, 0, "2018621e0328601e6428631e8528641e2100028b2100028b837c059b", &[("scheduler.pool_entries", "4")]),
    ("scheduler.pool_entries", "4", "neoverse-n1", Unrolled, 0, "2018621e0328601e6428631e8528641e2100028b2100028b837c059b", &[]),
    ("scheduler.delay", "0", "skylake", Loop, 0, "4883c0014801d84883c2014801daffc975ee", &[]),
    ("scheduler.entry_delay", "28", "goldencove", Loop, 0, "9090f3480fb8c349f7d049ffcf75f1", &[]),
    ("scheduler.sum_cycles", "0", "goldencove", Loop, 0, "0f58ca0f54ca49ffcf75f5", &[]),
    ("scheduler.late_wakeup", "1", "skylake", Loop, 0, "4883c0014801d84883c2014801daffc975ee", &[]),
    ("ports.assign", "least_loaded", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("ports.imbalance", "1", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("ports.neighbours", "0", "redwoodcove", Loop, 0, "48d1e89049ffcf75f7", &[]),
    ("ports.slots", "0000", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("ports.slots_of_two", "1111", "skylake", Loop, 0, "740066b80100740090740090ffc975ef", &[]),
    ("ports.tie", "low", "skylake", Loop, 0, "740066b80100740090740090ffc975ef", &[]),
    ("ports.position", "computing", "ivybridge", Loop, 26, "e30a4813140f488d4908ebf4", &[]),
    ("ports.counts_age", "2", "skylake", Unrolled, 0, "4801c84801ca4801cb", &[]),
    ("ports.counts_late", "false", "redwoodcove", Loop, 0, "48d1e89049ffcf75f7", &[]),
    ("ports.branches_balanced", "false", "redwoodcove", Loop, 0, "4889d84829c874184889d84829c874104889d84829c87408909090909090ffc975de", &[]),
    ("ports.loads_balanced", "false", "goldencove", Loop, 0, "8b503c488b004801d549ffcf75f2", &[("ports.slots", "0121")]),
    ("ports.load", "2", "skylake", Unrolled, 0, "488b00", &[]),
    ("ports.load_turns", "false", "sandybridge", Loop, 0, "488b442458f640120249ffcf75f2", &[]),
    ("ports.balanced", "01", "zen4", Loop, 0, "480f48c549ffcf75f7", &[]),
    ("ports.shared", "", "zen4", Loop, 0, "481317488b0748f7d34883c70849ffcf75ee", &[]),
    ("ports.second", "", "zen4", Loop, 0, "4885eb70004c8d43084c8d4b084c8d530849ffcf75ea", &[]),
    ("ports.balanced_entries", "8", "zen4", Loop, 0, "488b4e204c035e0849ffcf75f3", &[]),
    ("ports.bound_seen", "1", "zen4", Loop, 0, "488b074883c7084801c24d01dc49ffcf75ee", &[]),
    ("ports.started_seen", "1", "zen4", Loop, 0, "488b074883c7084801c24d01dc49ffcf75ee", &[]),
    ("ports.entry_freed", "1", "zen4", Loop, 0, "488b1401488914034883c0084883f83075ee", &[]),
    ("ports.result_cycles", "3", "sandybridge", Loop, 0, "486bc1054883c2014883c3014883c6014883c7014983c00149ffcf75e3", &[("ports.result_cycles", "0")]),
    ("ports.result_patience", "0", "zen4", Loop, 0, "486bd303c4e3fbf0cb03c463fbf0c30349ffcf75eb", &[]),
    ("ports.borrowed", "", "zen4", Loop, 0, "660f7ecac4e3fbf0cb03c463fbf0c30349ffcf75eb", &[]),
    ("ports.joint", "", "zen4", Loop, 0, "4885eb70004885eb700049ffcf75f1", &[]),
    ("ports.joint_patience", "0", "zen4", Loop, 0, "803f0570004c8d41014c0f441f49ffcf75ee", &[]),
    ("ports.wide_closes", "", "redwoodcove", Loop, 0, "6291fd486fc6c4c109fecfc4c109fed7c4c109fedfc4c109fee7c4c109feefc4c109fef7c4c109feffc44109fec7c44109fecf49ffcf75c8", &[]),
    ("ports.wide_slots", "0", "redwoodcove", Loop, 0, "6291fd486fc6c4c109fecfc4c109fed7c4c109fedfc4c109fee7c4c109feefc4c109fef7c4c109feffc44109fec7c44109fecf49ffcf75c8", &[]),
    ("ports.store_address", "2", "skylake", Unrolled, 0, "48890f488b0f", &[]),
    ("ports.store_data", "0", "skylake", Unrolled, 0, "48890f488b0f", &[]),
    ("ports.alu", "1", "skylake", Unrolled, 0, "5058488b0424480fafc3", &[]),
    ("ports.taken_branch", "0", "skylake", Loop, 0, "740066b80100740090740090ffc975ef", &[]),
    ("memory.load_cycles", "3", "skylake", Loop, 0, "480107ffc975f9", &[]),
    ("memory.miss_cycles", "9", "skylake", Unrolled, 0, "488b00", &[]),
    ("memory.load_vector_cycles", "3", "skylake", Loop, 0, "0f29070f5807ffc975f6", &[]),
    ("memory.load_256_cycles", "3", "skylake", Loop, 0, "c5fc2907c5fc5807ffc975f4", &[]),
    ("memory.complex_address_cycles", "3", "zen4", Loop, 0, "488b04c649ffcf75f7", &[]),
    ("memory.pointer_chase_gain", "2", "skylake", Unrolled, 0, "488b00", &[]),
    ("memory.pointer_chase_reach", "1", "skylake", Unrolled, 0, "488b4010", &[]),
    ("memory.forward_cycles", "2", "skylake", Unrolled, 0, "48890f488b0f", &[]),
    ("memory.forward_parts", "true", "skylake", Unrolled, 0, "48890f8b4f04", &[]),
    ("memory.failed_forward_cycles", "200", "skylake", Loop, 0, "880f488b07ffc975f7", &[]),
    ("memory.renamed_forward_cycles", "3", "redwoodcove", Unrolled, 0, "48890f488b0f", &[]),
    ("memory.renames", "none", "zen2", Unrolled, 0, "48890f488b0f", &[]),
    ("memory.renamed_updates", "constant", "goldencove", Unrolled, 0, "01442408", &[("memory.renamed_updates", "any")]),
    ("memory.renamed_reach", "8", "zen2", Unrolled, 0, "48894f10488b4f10", &[]),
    ("memory.renamed_step", "16", "zen2", Unrolled, 0, "48894f08488b4f08", &[]),
    ("memory.renamed_bytes", "8", "zen2", Unrolled, 0, "890f8b0f", &[]),
    ("memory.renamed_in_loops", "0", "zen3", Loop, 0, "4883400801ffc975f7", &[]),
    ("memory.renamed_words", "true", "goldencove", Loop, 0, "6683030149ffcf75f7", &[]),
    ("memory.renamed_parts", "true", "zen4", Unrolled, 0, "48890f8b0f", &[]),
    ("memory.failed_forward_waits", "false", "zen4", Loop, 0, "880f488b07ffc975f7", &[]),
    ("memory.failed_forward_wait_cycles", "0", "redwoodcove", Loop, 0, "896c2410895c2414488b442410ffc975f1", &[]),
    ("memory.merges_lower", "false", "redwoodcove", Loop, 0, "896c2410488b442410ffc975f5", &[]),
    ("memory.forward_update_cycles", "20", "zen3", Unrolled, 0, "480107", &[]),
    ("memory.forward_part_cycles", "30", "zen4", Unrolled, 0, "48890f8b4f04", &[]),
    ("memory.forward_vector_cycles", "30", "zen4", Unrolled, 0, "0f29070f2807", &[]),
    ("memory.commit_bytes", "0", "zen4", Unrolled, 0, "48890f48898f80000000", &[]),
    ("memory.commit_middle", "true", "zen4", Unrolled, 0, "0f11470848894718", &[]),
    ("memory.commit_parts", "false", "zen4", Loop, 0, "488947144889471c4889472449ffcf75ef", &[]),
    ("memory.commit_narrow_cycles", "9", "zen4", Unrolled, 0, "888f800000008807", &[]),
    ("memory.store_queue", "2", "zen4", Unrolled, 0, "48890f48898f80000000", &[]),
    ("memory.stream_line_cycles", "1", "skylake", Loop, 0, "4889074883c70848ffc975f4", &[]),
    ("memory.bank_loads", "1", "skylake", Unrolled, 0, "8b068b0e8b168b1e", &[]),
    ("memory.bank_bytes", "16", "goldencove", Unrolled, 0, "8b068b4e048b56088b5e0c", &[("memory.bank_loads", "2")]),
    ("memory.line_bytes", "128", "goldencove", Unrolled, 0, "8b068b4e408b16", &[("memory.bank_loads", "2")]),
    ("memory.element_cycles", "7", "neoverse-n1", Unrolled, 0, "2080400d", &[]),
    ("memory.port_cycles_256", "8", "skylake", Loop, 0, "c5fc1007c5fc1147204883c720ffc975ee", &[]),
    ("memory.port_cycles_512", "8", "zen4", Unrolled, 0, "62f17c481007", &[]),
    ("memory.misaligned_by", "1", "zen2", Loop, 0, "4889074883c70848ffc975f4", &[]),
    ("memory.split_load_bytes", "1", "zen2", Unrolled, 0, "488b07488b5f08", &[("memory.misaligned_by", "4")]),
    ("memory.split_load_cycles", "8", "zen2", Unrolled, 0, "c5fc1007c5fc105720", &[("memory.misaligned_by", "4")]),
    ("memory.split_load_delay", "9", "zen4", Loop, 0, "488b463c4883e0004801c649ffcf75f0", &[]),
    ("memory.split_store_bytes", "1", "zen2", Unrolled, 0, "488907", &[("memory.misaligned_by", "4")]),
    ("memory.split_store_cycles", "3", "zen2", Unrolled, 0, "0f1107", &[("memory.misaligned_by", "4")]),
    ("retire.width", "1", "skylake", Unrolled, 0, "90", &[]),
    ("retire.reorder_buffer", "4", "skylake", Unrolled, 0, "415c", &[]),
    ("macro_fusion.pairs", "none", "skylake", Loop, 29, "48ffc975fb", &[]),
    ("macro_fusion.boundary_bytes", "1", "skylake", Loop, 29, "48ffc975fb", &[]),
    ("macro_fusion.load_slots", "1", "zen4", Loop, 0, "4989d84989d84989d84989d84989d84989d84989d84989d84989d84989d84989d84989d84989d84989d84989d8833e00700049ffcf75c9", &[]),
    ("macro_fusion.result_ports", "1", "zen4", Loop, 0, "4c0f48c34c0f48cb4c0f48d3ffc975f0", &[]),
    ("macro_fusion.dependent", "", "tsv110", Unrolled, 0, "001c216e001c226e", &[]),
    ("macro_fusion.move_ops", "", "redwoodcove", Loop, 0, "4889d84801c84889da4801ca4989d84901c8909090909090909090ffc975e2", &[]),
    ("macro_fusion.load_ops", "", "redwoodcove", Loop, 0, "488b034801c8488b134801ca4c8b034901c8909090909090909090ffc975e2", &[]),
    ("macro_fusion.nops", "false", "zen4", Unrolled, 0, "9090", &[]),
    ("macro_fusion.nop_bytes", "3", "zen4", Unrolled, 0, "66906690", &[]),
    ("taken_branch.cycles", "2", "skylake", Loop, 0, "ffc975fc", &[]),
    ("taken_branch.level", "1", "zen2", Loop, 0, "ffc975fc", &[]),
    ("taken_branch.second_bubble", "2", "zen2", Loop, 0, "ffc975fc", &[("taken_branch.level", "1")]),
    ("taken_branch.third_bubble", "1", "zen2", Loop, 0, "ffc975fc", &[("taken_branch.level", "2")]),
    ("taken_branch.dense_bytes", "4", "skylake", Loop, 0, "39f27404ffc975f8", &[("taken_branch.level", "1"), ("taken_branch.dense_bubble", "3"), ("taken_branch.dense_level", "1")]),
    ("taken_branch.dense_level", "2", "tsv110", Loop, 0, "610000b4000400f1c1ffff54", &[("taken_branch.level", "1")]),
    ("taken_branch.dense_bubble", "2", "neoverse-n1", Loop, 0, "410000b4e0ffffb5", &[("taken_branch.level", "1"), ("taken_branch.dense_level", "1")]),
    ("string.movs_startup", "1", "skylake", Unrolled, 0, "f348a5", &[]),
    ("string.movsb_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f3a4", &[]),
    ("string.movsq_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f348a5", &[]),
    ("string.movsq_odd_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f348a5", &[("string.destination", "3")]),
    ("string.movsb_startup", "60", "skylake", Unrolled, 0, "f3a4", &[]),
    ("string.movs_rate", "1", "skylake", Unrolled, 0, "f3a4", &[]),
    ("string.movs_rate_unaligned", "1", "skylake", Unrolled, 0, "f3a4", &[("string.destination", "3")]),
    ("string.stos_startup", "1", "skylake", Unrolled, 0, "f348ab", &[]),
    ("string.stos_rate", "1", "skylake", Unrolled, 0, "f348ab", &[]),
    ("string.stos_rate_unaligned", "16", "skylake", Unrolled, 0, "f348ab", &[("string.destination", "3"), ("string.stos_rate_unaligned", "8")]),
    ("string.movs_odd_line_cycles", "10", "skylake", Unrolled, 0, "f348a5", &[("string.destination", "3")]),
    ("string.stos_odd_line_cycles", "10", "skylake", Unrolled, 0, "f348ab", &[("string.destination", "3"), ("string.stos_rate_unaligned", "8")]),
    ("string.stosb_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f3aa", &[]),
    ("string.stosq_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f348ab", &[]),
    ("string.stosq_odd_cycles", "[[1,77,78]]", "skylake", Unrolled, 0, "f348ab", &[("string.destination", "3"), ("string.stos_rate_unaligned", "8")]),
    ("string.alignment", "1", "skylake", Unrolled, 0, "f3a4", &[("string.destination", "16"), ("string.movs_rate_unaligned", "2")]),
    ("string.aligned_at", "end", "skylake", Unrolled, 0, "f3a4", &[("string.destination", "48"), ("string.count", "80"), ("string.movs_rate_unaligned", "2")]),
    ("string.whole_elements", "true", "skylake", Unrolled, 0, "f348ab", &[("string.destination", "3"), ("string.stos_rate_unaligned", "8")]),
    ("string.movs_end_cycles", "9", "zen4", Unrolled, 0, "f3a4", &[("string.count", "500")]),
    ("string.stos_end_cycles", "9", "zen4", Unrolled, 0, "f348ab", &[("string.count", "501")]),
    ("string.end_from", "1000", "zen4", Unrolled, 0, "f3a4", &[("string.count", "500")]),
    ("string.count", "1", "skylake", Unrolled, 0, "f3a4", &[]),
    ("string.destination", "1", "skylake", Unrolled, 0, "f3a4", &[]),
    ("serial.stac_clac", "30", "zen2", Unrolled, 0, "0f01cb", &[("serial.stac_clac", "10")]),
    ("serial.lfence", "1", "skylake", Unrolled, 0, "0faee8", &[]),
    ("serial.lfence_overlap", "3", "skylake", Unrolled, 0, "0faee8480fafc0", &[("serial.lfence", "10")]),
    ("serial.mfence", "1", "zen2", Unrolled, 0, "0faef0", &[]),
    ("serial.avx_sse_transition", "0", "goldencove", Loop, 0, "c5edfecb660fefe549ffcf75f3", &[]),
];

#[test]
fn every_parameter_acts() {
    for name in Params::names() {
        // Names of ports are letters alone; what acts on calls alone is in tests/calls.
        const ELSEWHERE: [&str; 13] = [
            "ports.names",
            "memory.commit_page_cycles",
            "string.holds_rename",
            "string.hold_bytes",
            "taken_branch.exit_turns",
            "taken_branch.return_bubble",
            "taken_branch.return_lead",
            "taken_branch.jump_pairs",
            "taken_branch.next_line",
            "mispredict.cycles",
            "mispredict.history",
            "taken_branch.exit_bubble",
            "string.odd_side",
        ];
        let known = ACTS.iter().any(|case| case.0 == name) || ELSEWHERE.contains(&name);
        assert!(known, "no block shows what {name} does");
    }
    for (name, value, core, notion, offset, hex, others) in ACTS {
        let cycles = |set: &[(&str, &str)]| {
            let core = core_with(core, set).unwrap_or_else(|e| panic!("{name}: {e}"));
            cycles_on(&core, hex, *offset, *notion).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let kept: Vec<_> = others.iter().filter(|o| o.0 != *name).copied().collect();
        let (before, after) = (cycles(others), cycles(&[&kept[..], &[(name, value)]].concat()));
        assert!(
            (before - after).abs() > 0.01,
            "{name} = {value}: {before} cycles either way"
        );
    }
}

/// Cores whose parameters differ most: a range is of the parameter, whatever the core.
const UNLIKE: [&str; 3] = ["skylake", "zen4", "tsv110"];

#[test]
fn every_parameter_has_a_range_and_is_refused_outside_of_it() {
    for name in Params::names().into_iter().filter(|n| *n != "ports.names") {
        for value in ["-1", "4294967296", "nonsense words", "0.5.5", "[[1, 2]]"] {
            let refused = UNLIKE.iter().all(|core| core_with(core, &[(name, value)]).is_err());
            assert!(refused, "{name} = {value}");
        }
        // The largest number that fits the machine is in no range but that of repetitions.
        let refused = UNLIKE
            .iter()
            .all(|core| core_with(core, &[(name, "4294967295")]).is_err());
        assert!(refused || name == "string.count", "{name} = 4294967295");
    }
}
