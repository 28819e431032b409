//! What must come before what: the parts of a run that touch the same memory, so that a graph lets all others run
//! side by side.

use std::ops::Range;

/// Parts above which a graph is one chain: looking at all pairs would take too long.
const MOST: usize = 1024;

/// What a part of a run uses.
#[derive(Clone, Default, Debug)]
pub(crate) struct Uses {
    /// Memory that it reads.
    pub reads: Vec<Range<usize>>,
    /// Memory that it writes.
    pub writes: Vec<Range<usize>>,
    /// What only one part may have at a time, a bit each: the scratch memory, workspaces of the matrix library.
    pub shares: u32,
}

fn meet(a: &[Range<usize>], b: &[Range<usize>]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.start < y.end && y.start < x.end))
}

fn conflict(a: &Uses, b: &Uses) -> bool {
    meet(&a.writes, &b.reads)
        || meet(&a.writes, &b.writes)
        || meet(&a.reads, &b.writes)
        || a.shares & b.shares != 0
}

/// For each part, given in an order that is right: the earlier ones that it has to wait for, without those that
/// others of these wait for.
pub(crate) fn order(parts: &[Uses]) -> Vec<Vec<usize>> {
    if parts.len() > MOST {
        return (0..parts.len()).map(|i| i.checked_sub(1).into_iter().collect()).collect();
    }
    let words = parts.len().div_ceil(64);
    // Per part: everything that is known to be done before it.
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(parts.len());
    let mut all = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        let mut done = vec![0u64; words];
        let mut waits = Vec::new();
        for i in (0..j).rev() {
            if done[i / 64] >> (i % 64) & 1 == 0 && conflict(&parts[i], part) {
                waits.push(i);
                done[i / 64] |= 1 << (i % 64);
                done.iter_mut().zip(&before[i]).for_each(|(d, b)| *d |= b);
            }
        }
        before.push(done);
        all.push(waits);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(reads: &[usize], writes: &[usize]) -> Uses {
        let ranges = |all: &[usize]| all.iter().map(|&a| 10 * a..10 * a + 10).collect();
        Uses { reads: ranges(reads), writes: ranges(writes), shares: 0 }
    }

    #[test]
    fn parts_wait_for_what_they_need_and_for_memory() {
        // 0 -> 1; 2 beside them; 3 needs both; 4 writes what 2 reads.
        let parts =
            [part(&[0], &[1]), part(&[1], &[2]), part(&[5], &[6]), part(&[2, 6], &[7]), part(&[0], &[5])];
        let none: Vec<usize> = vec![];
        assert_eq!(order(&parts), [none.clone(), vec![0], none, vec![2, 1], vec![2]]);
    }

    #[test]
    fn what_is_waited_for_already_is_not_waited_for_again() {
        let parts = [part(&[], &[1]), part(&[1], &[2]), part(&[1, 2], &[3])];
        assert_eq!(order(&parts), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn shared_things_are_had_in_turn() {
        let mut parts = vec![part(&[], &[1]), part(&[], &[2])];
        parts.iter_mut().for_each(|p| p.shares = 1);
        assert_eq!(order(&parts), [vec![], vec![0]]);
    }
}
