//! Parameters without an effect on a core, given its others: an override of one is a mistake.

use crate::core::choice::{Assign, CacheRule, FetchKind, Renames};
use crate::core::params::Params;
use crate::core::value::UNLIMITED;
use crate::isa::Isa;

impl Params {
    /// The reason why a parameter's value has no effect; `None` if it has one.
    pub fn inert(&self, name: &str) -> Option<String> {
        let (table, key) = name.split_once('.')?;
        let because = |holds: bool, why: &str| holds.then(|| why.to_string());
        self.inert_by_isa(table, key)
            .or_else(|| self.inert_front_end(table, key))
            .or_else(|| match (table, key) {
                (
                    "ports",
                    "imbalance" | "neighbours" | "slots" | "slots_of_two" | "tie" | "position" | "counts_age"
                    | "counts_late" | "branches_balanced",
                ) => because(
                    self.ports.assign != Assign::DispatchSlots,
                    "ports.assign is not dispatch_slots",
                ),
                ("ports", "balanced" | "borrowed" | "joint") => {
                    because(self.ports.assign != Assign::AtIssue, "ports.assign is not at_issue")
                }
                ("ports", "joint_patience") => because(self.ports.joint.is_empty(), "ports.joint names no ports"),
                ("ports", "result_patience") => because(self.ports.result_cycles == 0, "ports.result_cycles is 0"),
                ("ports", "shared" | "second" | "balanced_entries" | "bound_seen" | "started_seen" | "entry_freed") => {
                    because(self.ports.balanced.is_empty(), "ports.balanced names no ports")
                }
                ("ports", "wide_closes") => because(self.ports.assign == Assign::AtIssue, "ports.assign is at_issue"),
                ("ports", "wide_slots") => {
                    because(self.ports.wide_closes.is_empty(), "ports.wide_closes names no ports")
                }
                ("rename", "move_slot_cycles") => {
                    let limited = |slots| slots != 0 && slots != UNLIMITED;
                    because(
                        !limited(self.rename.move_slots_gpr) && !limited(self.rename.move_slots_vec),
                        "rename.move_slots_gpr and rename.move_slots_vec are 0 or unlimited",
                    )
                }
                ("scheduler", "pool_entries") => {
                    because(self.scheduler.pools.is_empty(), "scheduler.pools names no ports")
                }
                ("scheduler", "pools") => because(
                    self.scheduler.pool_entries >= self.scheduler.entries,
                    "scheduler.pool_entries is not below scheduler.entries",
                ),
                ("macro_fusion", "nop_bytes") => because(!self.macro_fusion.nops, "macro_fusion.nops is false"),
                ("memory", "split_load_bytes") => {
                    because(self.memory.split_load_cycles == 0, "memory.split_load_cycles is 0")
                }
                ("memory", "split_store_bytes") => {
                    because(self.memory.split_store_cycles == 0, "memory.split_store_cycles is 0")
                }
                ("memory", "misaligned_by") => because(
                    self.memory.split_load_cycles + self.memory.split_store_cycles == 0,
                    "memory.split_load_cycles and memory.split_store_cycles are 0",
                ),
                ("memory", _) => self.inert_memory(key),
                ("string", _) => self.inert_string(key),
                ("taken_branch", _) => self.inert_taken_branch(key),
                _ => None,
            })
    }

    fn inert_by_isa(&self, table: &str, key: &str) -> Option<String> {
        let x86 = matches!(
            (table, key),
            ("string" | "serial", _)
                | ("predecode", "lcp_cycles")
                | ("decode", "pop_r12" | "microcode_cycles" | "microcode_width")
                | ("macro_fusion", "move_ops" | "load_ops")
                | (
                    "uop_cache",
                    "wide_ends" | "wide_operands" | "line_wide" | "long_constants" | "microcode_stall"
                )
                | (
                    "rename",
                    "stack_sync"
                        | "immediate_add_limit"
                        | "index_alone"
                        | "high_byte_merge"
                        | "high_byte_read_cycles"
                        | "result_first"
                )
                | (
                    "memory",
                    "complex_address_cycles"
                        | "pointer_chase_gain"
                        | "pointer_chase_reach"
                        | "renamed_forward_cycles"
                        | "renamed_updates"
                        | "port_cycles_256"
                        | "port_cycles_512"
                        | "load_256_cycles"
                )
        );
        match self.isa {
            Isa::Arm64 if x86 => Some("it concerns x86-64 alone".to_string()),
            Isa::X86 if (table, key) == ("memory", "element_cycles") => Some("it concerns AArch64 alone".to_string()),
            _ => None,
        }
    }

    fn inert_front_end(&self, table: &str, key: &str) -> Option<String> {
        let rule = self.uop_cache.rule;
        let predecoded = self.front_end.fetch == FetchKind::Predecoded;
        // All code comes from the cache: nothing is ever fetched or decoded.
        let all_cached = rule == CacheRule::Entry && self.uop_cache.unrolled;
        let why = match (table, key) {
            ("predecode", _) | ("decode", "fusible_last" | "pop_r12") if !predecoded => {
                "front_end.fetch is blocks: there is no predecoder"
            }
            ("fetch", _) if predecoded => "front_end.fetch is predecoded",
            ("predecode" | "fetch", _)
            | ("decode", "width" | "branch_ends" | "microcode_cycles" | "fusible_last" | "pop_r12")
                if all_cached =>
            {
                "the op cache holds all code (uop_cache.rule is entry, uop_cache.unrolled is true)"
            }
            ("uop_cache", k) if k != "rule" && rule == CacheRule::None => "uop_cache.rule is none",
            ("uop_cache", "lines" | "pairs" | "branch_erratum") if rule != CacheRule::Region => {
                "uop_cache.rule is not region"
            }
            ("uop_cache", "spare_constants" | "crowded_constants" | "short_constants")
                if self.uop_cache.constants == UNLIMITED =>
            {
                "uop_cache.constants is unlimited"
            }
            ("loop_buffer", "uops" | "crossing_uops" | "unroll") if !self.loop_buffer.enabled => {
                "loop_buffer.enabled is false"
            }
            ("loop_buffer", _) if rule == CacheRule::None => "uop_cache.rule is none",
            _ => return None,
        };
        Some(why.to_string())
    }

    fn inert_memory(&self, key: &str) -> Option<String> {
        let p = &self.memory;
        let why = match key {
            "renamed_forward_cycles"
            | "renamed_reach"
            | "renamed_step"
            | "renamed_bytes"
            | "renamed_parts"
            | "renamed_updates"
            | "renamed_in_loops"
                if p.renames == Renames::None =>
            {
                "memory.renames is none"
            }
            "renamed_parts" if !p.forward_parts => "memory.forward_parts is false",
            "pointer_chase_reach" if p.pointer_chase_gain == 0 => "memory.pointer_chase_gain is 0",
            "failed_forward_waits" if p.failed_forward_cycles == 0 => "memory.failed_forward_cycles is 0",
            "failed_forward_wait_cycles" | "merges_lower" if !p.failed_forward_waits => {
                "memory.failed_forward_waits is false"
            }
            "forward_part_cycles" if !p.forward_parts => "memory.forward_parts is false",
            "line_bytes" if p.bank_loads == UNLIMITED && p.stream_line_cycles == 0.0 => {
                "memory.bank_loads is unlimited and memory.stream_line_cycles is 0"
            }
            "bank_bytes" if p.bank_loads == UNLIMITED => "memory.bank_loads is unlimited",
            "store_queue" | "commit_middle" | "commit_parts" | "commit_page_cycles" | "commit_narrow_cycles"
                if p.commit_bytes == 0 =>
            {
                "memory.commit_bytes is 0"
            }
            "split_load_delay" if p.split_load_cycles == 0 => "memory.split_load_cycles is 0",
            _ => return None,
        };
        Some(why.to_string())
    }

    fn inert_string(&self, key: &str) -> Option<String> {
        let p = &self.string;
        let why = match key {
            "hold_bytes" if !p.holds_rename => "string.holds_rename is false",
            "end_from" if p.movs_end_cycles == 0.0 && p.stos_end_cycles == 0.0 => {
                "string.movs_end_cycles and stos_end_cycles are 0"
            }
            "movs_end_cycles"
                if p.movsb_cycles.is_empty() && p.movsq_cycles.is_empty() && p.movsq_odd_cycles.is_empty() =>
            {
                "copies have no measured points"
            }
            "stos_end_cycles"
                if p.stosb_cycles.is_empty() && p.stosq_cycles.is_empty() && p.stosq_odd_cycles.is_empty() =>
            {
                "fills have no measured points"
            }
            _ => return None,
        };
        Some(why.to_string())
    }

    fn inert_taken_branch(&self, key: &str) -> Option<String> {
        let p = &self.taken_branch;
        let why = match key {
            "level" if p.second_bubble + p.third_bubble + p.dense_bubble == 0 => {
                "all target buffers are as fast (taken_branch.second_bubble, third_bubble and dense_bubble are 0)"
            }
            "exit_turns" if p.exit_bubble == 0 => "taken_branch.exit_bubble is 0",
            "return_lead" if p.return_bubble == 0 && !self.uop_cache.joins.finds_ahead() => {
                "taken_branch.return_bubble is 0, and uop_cache.joins finds no targets ahead"
            }
            "jump_pairs" | "next_line" if p.return_bubble == 0 => "taken_branch.return_bubble is 0",
            "second_bubble" if p.level != 1 => "taken_branch.level is not 1",
            "third_bubble" if p.level != 2 => "taken_branch.level is not 2",
            "dense_bytes" | "dense_level" if p.dense_bubble == 0 => "taken_branch.dense_bubble is 0",
            "dense_bubble" if p.level < p.dense_level => "taken_branch.level is below taken_branch.dense_level",
            _ => return None,
        };
        Some(why.to_string())
    }
}
