//! Micro-fusion: which uops share a dispatch slot, and which slots a front-end uop.

use crate::block::uops::{Role, Uop};
use crate::core::figures::Shape;

/// Fuse uops into `shape.slots` dispatch slots and those into front-end uops.
pub(crate) fn fuse(uops: &[Uop], shape: &Shape, ms: u16) -> Vec<Vec<Vec<u16>>> {
    let most = usize::from(shape.slots.max(1));
    let front = usize::from((shape.mite + ms).max(1)).min(most);
    let mut slots: Vec<Vec<u16>> = (0..uops.len() as u16).map(|i| vec![i]).collect();
    let role = |slot: &[u16]| uops[usize::from(slot[0])].role;
    let mergeable = |a: &[u16], b: &[u16]| match (role(a), role(b)) {
        (Role::Load, Role::Compute) | (Role::StoreAddress, Role::StoreData) => 0,
        (Role::Compute, Role::StoreAddress) => 1,
        _ => 2,
    };
    while slots.len() > most {
        let best = (0..slots.len() - 1)
            .filter(|i| slots[*i].len() == 1 && slots[i + 1].len() == 1)
            .min_by_key(|i| mergeable(&slots[*i], &slots[i + 1]));
        let at = best.unwrap_or(slots.len() - 2);
        let second = slots.remove(at + 1);
        slots[at].extend(second);
    }
    while slots.len() < most {
        slots.push(Vec::new());
    }
    let mut fused: Vec<Vec<Vec<u16>>> = slots.into_iter().map(|s| vec![s]).collect();
    let first_role = |f: &[Vec<u16>]| f.first().and_then(|s| s.first()).map(|u| uops[usize::from(*u)].role);
    while fused.len() > front {
        let best = (0..fused.len() - 1)
            .filter(|i| fused[*i].len() == 1 && fused[i + 1].len() == 1)
            .min_by_key(|i| match (first_role(&fused[*i]), first_role(&fused[i + 1])) {
                (Some(Role::Load), Some(Role::Compute)) => 0,
                (Some(Role::StoreAddress), Some(Role::StoreData)) => 1,
                _ => 2,
            });
        let at = best.unwrap_or(fused.len() - 2);
        let second = fused.remove(at + 1);
        fused[at].extend(second);
    }
    fused
}
