//! Rename, schedulers, ports and retirement: parameters of what executes.
use crate::core::{choice::*, declare::tables, value::UNLIMITED};
tables! {
    rename {
        /// Fused uops per cycle.
        width: int[1..=64] = None,
        /// Instructions per cycle.
        instructions: limit[1..=1000] = Some(UNLIMITED),
        /// Integer uops per cycle that need an arithmetic port.
        alu_uops: limit[1..=1000] = Some(UNLIMITED),
        /// Branches per cycle.
        branches: limit[1..=1000] = Some(UNLIMITED),
        /// Slots that code before a loop takes in the cycle in which rename begins with the loop.
        entry_slots: int[0..=63] = Some(0),
        /// Cycles for which rename stands still before it begins with a loop, while the queue before it fills.
        entry_stall: int[0..=100] = Some(0),
        /// Entries of the uop queue before rename.
        queue: int[1..=4096] = None,
        /// Slots for eliminated moves of general-purpose registers.
        move_slots_gpr: limit[0..=1000] = Some(0),
        /// Slots for eliminated moves of vector registers.
        move_slots_vec: limit[0..=1000] = Some(0),
        /// Cycles of rename after which a slot that is no longer needed can be used again; it is needed while two registers hold its value, and then until a cycle without eliminated moves; 0: at once.
        move_slot_cycles: int[0..=3] = Some(0),
        /// Whether a slot of general-purpose registers is needed until all registers that held its value are overwritten.
        move_slots_kept: flag = Some(false),
        /// Ports of the uop, alone in its cycle, that merges a high byte (`ah`) before its register is read; empty: high bytes are not renamed apart.
        high_byte_merge: text = Some(""),
        /// Extra cycles from a register to an instruction that reads its high byte, unless that was written apart.
        high_byte_read_cycles: int[0..=4] = Some(0),
        /// Whether of several computing uops of an x86 instruction the one for the ports listed first makes its results: one before it takes the inputs of each longer latency, and those left over make nothing.
        result_first: flag = Some(false),
        /// Largest sum of constants up to which rename performs additions of constants; 0: it performs none.
        immediate_add_limit: int[0..=65536] = Some(0),
        /// Whether rename waits until the schedulers have room for a full group.
        whole_groups: flag = Some(false),
        /// Leading slots of a cycle in which rename can unlaminate a fused uop; 0: all.
        apart_places: int[0..=64] = Some(0),
        /// Fused uops that rename unlaminates in a cycle.
        apart: limit[1..=64] = Some(UNLIMITED),
        /// Extra cycles of a shift of a register to which rename has added a constant.
        added_shift_cycles: int[0..=10] = Some(0),
        /// Whether such a shift occupies its port for another cycle.
        added_shift_again: flag = Some(false),
        /// Extra cycles of a `cmov` or `set` of one uop that is renamed in the same cycle as the logic instruction whose flags it reads.
        pick_cycles: int[0..=10] = Some(0),
        /// Whether `movzx` from `spl`, `bpl`, `sil`, `dil` and `r12b` to `r15b` cannot be eliminated.
        odd_bytes_kept: flag = Some(false),
        /// Whether an instruction is `indexed` (`instructions.csv`) by an index register without a base.
        index_alone: flag = Some(true),
        /// Whether an explicit use of the stack pointer after push or pop costs a uop.
        stack_sync: flag = Some(false),
    }
    scheduler {
        /// Entries of the scheduler.
        entries: int[1..=4096] = None,
        /// Groups of ports with a scheduler of their own, one word each: `ABC FG`.
        pools: text = Some(""),
        /// Entries of each of those schedulers.
        pool_entries: int[1..=4096] = Some(4096),
        /// Least cycles from rename to issue.
        delay: int[0..=100] = Some(5),
        /// Cycles after the earliest issue in which the arrival of the last operand is noticed a cycle late.
        late_wakeup: int[0..=2] = Some(0),
        /// Cycle at which the registers that a loop changes are known at its entry.
        entry_delay: int[0..=100] = Some(0),
        /// Extra cycles that a floating-point addition or subtraction waits for an operand from another kind of instruction.
        sum_cycles: int[0..=4] = Some(0),
    }
    ports {
        /// Names of the ports, one character each.
        names: text = None,
        /// `dispatch_slots`, `least_loaded` or `at_issue`.
        assign: word[Assign] = None,
        /// Difference in waiting uops at which both choices are the same port.
        imbalance: int[0..=1000] = Some(3),
        /// Preceding slots of the cycle that are looked at: each without a uop for the same ports moves this slot on to the next choice.
        neighbours: int[0..=5] = Some(0),
        /// Which port each dispatch slot of a cycle takes, over again from the end: `0` the least loaded one, `1` the second, up to `4`; of those but the least loaded `h` the one of the highest number, `l` of the lowest; `t` the next one for each uop for the same ports before it in the cycle, the least loaded one first.
        slots: text = Some("0101"),
        /// The same for uops with two possible ports.
        slots_of_two: text = Some("0101"),
        /// `high` or `low`: which port wins a tie.
        tie: word[Tie] = Some(Tie::High),
        /// What advances the dispatch slot: `slots`, `computing` uops only, or slots that are `cached`: those of the uop cache and the loop buffer, of others computing uops.
        position: word[Counted] = Some(Counted::Slots),
        /// Age of rename's counts of issued uops, cycles.
        counts_age: int[0..=2] = Some(0),
        /// Whether rename's counts lack the uops that were bound to ports in the previous cycle.
        counts_late: flag = Some(false),
        /// Whether a branch that is not taken, or whose fused pair writes no register, gets the port with the fewest waiting uops in any slot.
        branches_balanced: flag = Some(false),
        /// Whether a load gets the port with the fewest waiting uops in any slot.
        loads_balanced: flag = Some(false),
        /// Ports that load.
        load: text = None,
        /// Ports that compute store addresses.
        store_address: text = None,
        /// Ports that store data.
        store_data: text = None,
        /// Whether uops for one of two load ports alternate between them.
        load_turns: flag = Some(false),
        /// Ports of schedulers that rename fills evenly, one each, where issue chooses all other ports: of those with equally many uops the first goes first; empty: none.
        balanced: text = Some(""),
        /// Further ports of these schedulers, each with its own of those, one word a scheduler, `04 15 26`: of loads, of store addresses and of some branches; empty: none.
        shared: text = Some(""),
        /// Those of these schedulers that take a second uop of a cycle, one which not all of them can take.
        second: text = Some(""),
        /// Most uops that wait in each of them.
        balanced_entries: limit[1..=4096] = Some(UNLIMITED),
        /// Cycles until rename sees that a uop is bound to one of them.
        bound_seen: int[1..=16] = Some(1),
        /// Cycles until rename sees that a uop of one of them started.
        started_seen: int[1..=16] = Some(1),
        /// Cycles until the entry of a uop that started is free.
        entry_freed: int[1..=16] = Some(5),
        /// Least latency of uops that compete for the result bus of their port: no two results of such uops arrive in one cycle, and none with that of a uop that writes a general register; flags alone need no bus; 0: none compete.
        result_cycles: int[0..=63] = Some(0),
        /// Cycles in a row in which a uop finds that bus taken, after which its port starts no younger uop first; 0: younger ones always pass.
        result_patience: int[0..=8] = Some(0),
        /// Pairs of ports, `e2`: results of the first go over the result bus of the second, which starts no uop that writes a general register in the cycles in which the first does; behind two cycles in a row in which it starts another uop the first waits a cycle; empty: none.
        borrowed: text = Some(""),
        /// Two ports, `3B`, an ALU and the branch unit beside it: a branch that is fused with an instruction that has a result, and bound to the first, executes in two parts, the result on the first, the flags and the branch on the second, where it passes older branches; empty: it does not.
        joint: text = Some(""),
        /// Cycles in which such pairs pass the same older branch.
        joint_patience: int[0..=63] = Some(0),
        /// Ports that no computing vector uop gets while one of 512 bits waits, and for `wide_slots`; empty: none.
        wide_closes: text = Some(""),
        /// Dispatch slots after an instruction of 512 bits for which they stay closed.
        wide_slots: int[0..=1000] = Some(0),
        /// Ports of a stack-pointer update.
        alu: text = None,
        /// Ports of a branch that is taken; empty: those of one that is not.
        taken_branch: text = Some(""),
    }
    retire {
        /// Fused uops per cycle.
        width: int[1..=64] = None,
        /// Entries of the reorder buffer, in fused uops.
        reorder_buffer: int[1..=1024] = None,
    }
}
