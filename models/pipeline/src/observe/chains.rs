//! Instructions that wait for each other from one iteration to the next.

use std::collections::BTreeSet;

/// The dependencies that instructions waited for: (producer, consumer).
pub type Edges = BTreeSet<(u16, u16)>;

/// Sets of instructions that depend on themselves: strongly connected ones, in program order.
pub fn of(edges: &Edges, count: usize) -> Vec<Vec<u16>> {
    let mut forward = vec![Vec::new(); count];
    let mut backward = vec![Vec::new(); count];
    for &(from, to) in edges {
        forward[usize::from(from)].push(to);
        backward[usize::from(to)].push(from);
    }
    let mut seen = vec![false; count];
    let mut finished = Vec::with_capacity(count);
    for start in 0..count as u16 {
        visit(&forward, start, &mut seen, &mut finished);
    }
    let mut seen = vec![false; count];
    let mut out = Vec::new();
    for &start in finished.iter().rev() {
        let mut members = Vec::new();
        visit(&backward, start, &mut seen, &mut members);
        members.sort_unstable();
        if members.len() > 1 || members.iter().any(|m| edges.contains(&(*m, *m))) {
            out.push(members);
        }
    }
    out.sort();
    out
}

/// Visit what can be reached and was not seen, each after all that follows it.
fn visit(next: &[Vec<u16>], start: u16, seen: &mut [bool], finished: &mut Vec<u16>) {
    if std::mem::replace(&mut seen[usize::from(start)], true) {
        return;
    }
    let mut path = vec![(start, 0)];
    while let Some((at, n)) = path.last_mut() {
        match next[usize::from(*at)].get(*n) {
            Some(&to) => {
                *n += 1;
                if !std::mem::replace(&mut seen[usize::from(to)], true) {
                    path.push((to, 0));
                }
            }
            None => {
                finished.push(*at);
                path.pop();
            }
        }
    }
}

/// The instructions that each waited for the next one's result last, in a cycle.
pub fn critical(waited: &[u16]) -> Vec<u16> {
    critical_from(waited, waited.len().saturating_sub(1) as u16)
}

/// The same, where one looks from an instruction on.
pub fn critical_from(waited: &[u16], start: u16) -> Vec<u16> {
    let mut at = start;
    let mut steps = Vec::new();
    while !steps.contains(&at) {
        steps.push(at);
        at = waited[usize::from(at)];
    }
    let from = steps.iter().position(|s| *s == at).unwrap_or(0);
    steps.split_off(from)
}
