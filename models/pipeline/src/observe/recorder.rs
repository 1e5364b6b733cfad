//! Keeps the events of the first iterations.

use crate::engine::events::{Event, Hold, Observer};

/// Keeps the events of the first iterations.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Iterations to keep.
    pub iterations: u32,
    /// Cycle and event, in order.
    pub events: Vec<(i32, Event)>,
    /// The reason why rename ended, by cycle.
    pub holds: Vec<Hold>,
}

impl Recorder {
    /// Of so many iterations.
    pub fn of(iterations: u32) -> Recorder {
        Recorder {
            iterations,
            ..Recorder::default()
        }
    }
}

impl Observer for Recorder {
    fn on(&mut self, cycle: i32, event: Event) {
        let iteration = match event {
            Event::Cycle | Event::Needs { .. } => return,
            Event::Held { why } => {
                self.holds.resize(cycle as usize, why);
                self.holds.push(why);
                return;
            }
            Event::Predecoded { iteration, .. }
            | Event::Queued { iteration, .. }
            | Event::Renamed { iteration, .. }
            | Event::Issued { iteration, .. }
            | Event::Retired { iteration, .. } => iteration,
        };
        if iteration < self.iterations {
            self.events.push((cycle, event));
        }
    }
}
