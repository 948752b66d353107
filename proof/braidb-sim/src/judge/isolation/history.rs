//! The checker of histories: whether transactions that ran side by side could have run one after the other.
//!
//! A transaction reads lists and appends elements, each of which is used once. So the last state of a list tells the order in which its
//! elements came, and each read tells how many of them it saw. From this follow the orders between transactions:
//!
//! - the writer of an element comes before the writer of the next one, and before the readers that saw it;
//! - a reader comes before the writer of the first element that it did not see;
//! - a transaction that ended comes before each that began later.
//!
//! A cycle of these orders shows that no serial order explains the history: a write skew, or a phantom if a reader did not see a new list.

use std::collections::BTreeMap;

/// A list that a transaction read, by its key; an absent key is an empty list.
pub type Read = (u64, Vec<u64>);

/// One run of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Moments of a clock that all threads share.
    pub begun: u64,
    pub ended: u64,
    pub reads: Vec<Read>,
    /// Whether the run scanned all lists: it read each other list as empty.
    pub has_scanned: bool,
    /// Keys and elements.
    pub appends: Vec<(u64, u64)>,
    pub is_committed: bool,
}

/// Checks a history. `last` is the state behind it.
///
/// # Errors
///
/// What no serial order explains.
pub fn check(runs: &[Run], last: &BTreeMap<u64, Vec<u64>>) -> Result<(), String> {
    let mut writers = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for &(_, element) in &run.appends {
            writers.insert(element, number);
        }
    }
    let empty = Vec::new();
    let reads = runs.iter().flat_map(|run| &run.reads);
    for (key, list) in reads.map(|(key, list)| (key, list)).chain(last) {
        for element in list {
            match writers.get(element) {
                Some(&writer) if runs[writer].is_committed => {}
                _ => return Err(format!("dirty read: {element} of list {key} was never committed")),
            }
        }
        if !last.get(key).unwrap_or(&empty).starts_with(list) {
            return Err(format!(
                "lost update: list {key} was {list:?} once, and ends as {:?}",
                last.get(key)
            ));
        }
    }
    for run in runs.iter().filter(|run| run.is_committed) {
        for (key, element) in &run.appends {
            if !last.get(key).unwrap_or(&empty).contains(element) {
                return Err(format!("lost update: {element} is missing in list {key}"));
            }
        }
    }
    let orders = orders(runs, last, &writers);
    match cycle(&orders) {
        None => Ok(()),
        Some(cycle) => Err(format!("no serial order: {}", told(&cycle, runs))),
    }
}

fn told(cycle: &[usize], runs: &[Run]) -> String {
    let shown = cycle.iter().filter_map(|&node| Some(format!("{node} ({:?})", runs.get(node)?)));
    shown.take(4).collect::<Vec<_>>().join(" before ")
}

/// For each node the nodes that come after it. The first nodes are the runs, the others moments at which a run ended.
fn orders(runs: &[Run], last: &BTreeMap<u64, Vec<u64>>, writers: &BTreeMap<u64, usize>) -> Vec<Vec<usize>> {
    let committed: Vec<usize> = (0..runs.len()).filter(|&number| runs[number].is_committed).collect();
    let mut by_end = committed.clone();
    by_end.sort_by_key(|&number| runs[number].ended);
    let mut after = vec![Vec::new(); runs.len() + by_end.len()];
    for (place, &number) in by_end.iter().enumerate() {
        after[number].push(runs.len() + place);
        if place + 1 < by_end.len() {
            after[runs.len() + place].push(runs.len() + place + 1);
        }
    }
    for &number in &committed {
        let ended_before = by_end.partition_point(|&other| runs[other].ended < runs[number].begun);
        if let Some(place) = ended_before.checked_sub(1) {
            after[runs.len() + place].push(number);
        }
    }
    for list in last.values() {
        for pair in list.windows(2) {
            after[writers[&pair[0]]].push(writers[&pair[1]]);
        }
    }
    let empty = Vec::new();
    for &number in &committed {
        let run = &runs[number];
        for (key, list) in &run.reads {
            if let Some(seen) = list.last() {
                after[writers[seen]].push(number);
            }
            if let Some(unseen) = last.get(key).unwrap_or(&empty).get(list.len()) {
                after[number].push(writers[unseen]);
            }
        }
        let is_unseen = |key: &u64| run.has_scanned && !run.reads.iter().any(|(read, _)| read == key);
        for (_, list) in last.iter().filter(|(key, _)| is_unseen(key)) {
            after[number].push(writers[&list[0]]);
        }
    }
    // A run may write two elements of a list, and what it read itself before.
    for (number, nodes) in after.iter_mut().enumerate() {
        nodes.retain(|&other| other != number);
    }
    after
}

/// Nodes of a cycle, if there is one.
fn cycle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut before = vec![0; after.len()];
    after.iter().flatten().for_each(|&node| before[node] += 1);
    let mut free: Vec<usize> = (0..after.len()).filter(|&node| before[node] == 0).collect();
    let mut left = after.len();
    while let Some(node) = free.pop() {
        left -= 1;
        before[node] = usize::MAX;
        for &next in &after[node] {
            before[next] -= 1;
            if before[next] == 0 {
                free.push(next);
            }
        }
    }
    if left == 0 {
        return None;
    }
    // Each node that is left leads, going back, to others that are left. Going on from one must come to a node twice.
    let is_left = |node: &usize| before[*node] != usize::MAX;
    let leads_back =
        |node: usize| (0..after.len()).filter(is_left).find(|&other| after[other].contains(&node));
    let mut path = vec![(0..after.len()).find(is_left)?];
    loop {
        let previous = leads_back(*path.last()?)?;
        if let Some(place) = path.iter().position(|&node| node == previous) {
            let mut nodes = path.split_off(place);
            nodes.reverse();
            return Some(nodes);
        }
        path.push(previous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(reads: &[(u64, &[u64])], appends: &[(u64, u64)]) -> Run {
        let reads = reads.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        Run { begun: 0, ended: 10, reads, has_scanned: false, appends: appends.to_vec(), is_committed: true }
    }

    fn check_all(runs: &[Run], last: &[(u64, &[u64])]) -> Result<(), String> {
        check(runs, &last.iter().map(|(key, list)| (*key, list.to_vec())).collect())
    }

    #[test]
    fn a_serial_history_passes() {
        let runs = [
            run(&[(1, &[])], &[(1, 10)]),
            run(&[(1, &[10])], &[(1, 11), (2, 12)]),
            run(&[(1, &[10, 11]), (2, &[12])], &[]),
        ];
        assert_eq!(check_all(&runs, &[(1, &[10, 11]), (2, &[12])]), Ok(()));
    }

    #[test]
    fn a_lost_update_is_found() {
        let runs = [run(&[(1, &[])], &[(1, 10)]), run(&[(1, &[])], &[(1, 11)])];
        assert!(check_all(&runs, &[(1, &[11])]).unwrap_err().contains("lost update"));
        // The first reader saw a list that no writer could have continued.
        let runs = [run(&[], &[(1, 10)]), run(&[], &[(1, 11)]), run(&[(1, &[10])], &[])];
        assert!(check_all(&runs, &[(1, &[11])]).unwrap_err().contains("lost update"));
    }

    #[test]
    fn a_write_skew_is_found() {
        let runs = [run(&[(1, &[]), (2, &[])], &[(1, 10)]), run(&[(1, &[]), (2, &[])], &[(2, 20)])];
        assert!(check_all(&runs, &[(1, &[10]), (2, &[20])]).unwrap_err().contains("no serial order"));
    }

    #[test]
    fn a_dirty_read_is_found() {
        let runs = [Run { is_committed: false, ..run(&[], &[(1, 10)]) }, run(&[(1, &[10])], &[])];
        assert!(check_all(&runs, &[]).unwrap_err().contains("dirty read"));
    }

    #[test]
    fn a_phantom_is_found() {
        // Each scan found no list, and each run then made one.
        let scan = |appends| Run { has_scanned: true, ..run(&[], appends) };
        let runs = [scan(&[(1, 10)]), scan(&[(2, 20)])];
        assert!(check_all(&runs, &[(1, &[10]), (2, &[20])]).unwrap_err().contains("no serial order"));
        let runs = [scan(&[(1, 10)]), Run { reads: vec![(1, vec![10])], ..scan(&[(2, 20)]) }];
        assert_eq!(check_all(&runs, &[(1, &[10]), (2, &[20])]), Ok(()));
    }

    #[test]
    fn a_read_of_a_state_that_had_passed_is_found() {
        let first = Run { begun: 0, ended: 1, ..run(&[], &[(1, 10)]) };
        let late = Run { begun: 2, ended: 3, ..run(&[(1, &[])], &[]) };
        assert!(check_all(&[first.clone(), late], &[(1, &[10])]).unwrap_err().contains("no serial order"));
        let beside = Run { begun: 0, ended: 3, ..run(&[(1, &[])], &[]) };
        assert_eq!(check_all(&[first, beside], &[(1, &[10])]), Ok(()));
    }
}
