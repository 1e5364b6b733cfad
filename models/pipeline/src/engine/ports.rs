//! The choice of an execution port.

use crate::block::Block;
use crate::core::params::{Assign, Choice};
use crate::engine::machine::Machine;

/// Ports in the order in which uops with a choice take them: schedulers that know what waits
/// leave those free that others need.
pub(crate) fn order(block: &Block, ports: usize) -> Vec<u8> {
    let mut needed = vec![0.0; ports];
    for uop in &block.uops {
        let choices = f64::from(uop.ports.count_ones().max(1));
        for (port, need) in needed.iter_mut().enumerate() {
            if uop.ports & 1 << port != 0 {
                *need += f64::from(uop.busy.max(1)) / choices;
            }
        }
    }
    let mut order: Vec<u8> = (0..ports as u8).collect();
    order.sort_by(|a, b| f64::total_cmp(&needed[usize::from(*a)], &needed[usize::from(*b)]));
    order
}

impl Machine<'_> {
    /// Give a uop its port, or leave the choice to dispatch.
    pub fn assign_port(&mut self, index: usize, ports: u32, position: u32) {
        let port = match self.assign {
            Assign::AtDispatch => 255,
            _ if ports.count_ones() == 1 => ports.trailing_zeros() as u8,
            Assign::LeastLoaded => self.least(ports),
            Assign::IssueSlots => self.by_issue_slot(ports, position),
        };
        self.flights[index].port = port;
        if port != 255 {
            self.sched.load[usize::from(port)] += 1;
        }
    }

    fn least(&self, ports: u32) -> u8 {
        (0..24u8)
            .filter(|p| ports & 1 << p != 0)
            .min_by_key(|p| (self.sched.load[usize::from(*p)], u8::MAX - p))
            .unwrap_or(0)
    }

    fn by_issue_slot(&mut self, ports: u32, position: u32) -> u8 {
        if ports & !self.sched.load_mask == 0 && ports.count_ones() == 2 {
            // The two load ports take turns.
            self.sched.turn = !self.sched.turn;
            let low = ports.trailing_zeros() as u8;
            let high = 31 - ports.leading_zeros() as u8;
            return if self.sched.turn { low } else { high };
        }
        // Keys order ports by load, then by the rule for ties.
        let mut order = [u32::MAX; 24];
        let mut count = 0;
        let mut left = ports;
        while left != 0 {
            let p = left.trailing_zeros();
            left &= left - 1;
            let tie = if self.sched.high { 31 - p } else { p };
            let mut key = self.sched.seen[p as usize] << 5 | tie;
            for place in &mut order[..count] {
                if key < *place {
                    std::mem::swap(place, &mut key);
                }
            }
            order[count] = key;
            count += 1;
        }
        let order = &order[..count];
        let tie_of = |key: &u32| key & 31;
        let others = || order[1..].iter().copied();
        let (chosen, against) = match self.sched.choices[usize::from(count == 2)][position as usize % 4] {
            Choice::Rank(rank) => (order[rank.min(count - 1)], order[rank.min(count - 1)]),
            Choice::Highest => (
                others().max_by_key(|k| self.port_of(tie_of(k))).unwrap_or(order[0]),
                order[count - 1],
            ),
            Choice::Lowest => (
                others().min_by_key(|k| self.port_of(tie_of(k))).unwrap_or(order[0]),
                order[count - 1],
            ),
        };
        let apart = (against >> 5) - (order[0] >> 5);
        let key = if apart >= self.params.ports.imbalance {
            order[0]
        } else {
            chosen
        };
        self.port_of(tie_of(&key))
    }

    /// The port of a key's lower bits, which rank ports by the rule for ties.
    fn port_of(&self, tie: u32) -> u8 {
        (if self.sched.high { 31 - tie } else { tie }) as u8
    }
}
