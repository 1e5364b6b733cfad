//! The choice of an execution port.

use crate::machine::Machine;
use crate::params::Assign;

impl Machine<'_> {
    /// Give a uop its port, or leave the choice to dispatch.
    pub fn assign_port(&mut self, index: usize, ports: u32, position: u32, store_address: bool) {
        let port = match self.assign {
            Assign::AtDispatch => 255,
            _ if ports.count_ones() == 1 => ports.trailing_zeros() as u8,
            Assign::LeastLoaded => self.least(ports),
            Assign::IssueSlots => self.by_issue_slot(ports, position, store_address),
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

    fn by_issue_slot(&mut self, ports: u32, position: u32, _store_address: bool) -> u8 {
        if ports & !self.sched.load_mask == 0 && ports.count_ones() == 2 {
            // The two load ports take turns.
            self.sched.turn = !self.sched.turn;
            let low = ports.trailing_zeros() as u8;
            let high = 31 - ports.leading_zeros() as u8;
            return if self.sched.turn { low } else { high };
        }
        let tie: u32 = crate::knob::k().tie;
        let slotr: u32 = crate::knob::k().slotr;
        let mut order: Vec<(u32, u8)> = (0..24u8)
            .filter(|p| ports & 1 << p != 0)
            .map(|p| (if crate::knob::k().snap == 9 { self.sched.load[usize::from(p)] } else { self.sched.seen[usize::from(p)] }, if tie==0 {u8::MAX - p} else {p}))
            .collect();
        order.sort_unstable();
        let first = order[0];
        let second = order.get(1).copied().unwrap_or(first);
        let second = if second.0 - first.0 >= self.params.ports.imbalance { first } else { second };
        let third = order.get(2).copied().unwrap_or(second);
        let third = if third.0 - first.0 >= self.params.ports.imbalance { first } else { third };
        let a = match slotr {
            0 => [first, second, first, second],
            1 => [second, first, second, first],
            2 => [first, first, second, second],
            3 => [first, second, second, first],
            4 => [first, second, third, first],
            5 => [first, first,first,first],
            6 => [first, second, third, third],
            7 => [first, second, third, second],
            8 => [first, third, second, first],
            n => { let t = [first, second, third]; let d = |k: u32| t[(n / 10u32.pow(k) % 10 % 3) as usize]; [d(0), d(1), d(2), d(3)] }
        };
        let chosen = a[position as usize % 4];
        if tie != 0 { return chosen.1; }
        u8::MAX - chosen.1
    }
}
