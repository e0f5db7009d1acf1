//! What in a directed graph leads to itself.

/// The nodes that `edges` lead to from the first, in groups whose nodes lead to each other. Each
/// group stands after all it leads to (Tarjan's algorithm).
pub(super) fn groups(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut order = vec![usize::MAX; edges.len()];
    let mut low = vec![usize::MAX; edges.len()];
    let mut waiting = vec![false; edges.len()];
    let (mut stack, mut path, mut groups) = (Vec::new(), vec![(0, 0)], Vec::new());
    let mut seen = 0;
    while let Some((id, next)) = path.pop() {
        if next == 0 {
            (order[id], low[id]) = (seen, seen);
            seen += 1;
            waiting[id] = true;
            stack.push(id);
        }
        if let Some(target) = edges[id].get(next).copied() {
            path.push((id, next + 1));
            if order[target] == usize::MAX {
                path.push((target, 0));
            } else if waiting[target] {
                low[id] = low[id].min(order[target]);
            }
            continue;
        }
        if let Some((parent, _)) = path.last() {
            low[*parent] = low[*parent].min(low[id]);
        }
        if low[id] == order[id] {
            let from = stack.iter().rposition(|waits| *waits == id).unwrap_or(0);
            let group = stack.split_off(from);
            group.iter().for_each(|member| waiting[*member] = false);
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_lead_to_each_other_stand_together_and_after_what_they_lead_to() {
        let edges = [vec![1, 4], vec![2], vec![1, 3], vec![], vec![4, 3], vec![0]];
        let mut found = groups(&edges);
        found.iter_mut().for_each(|group| group.sort_unstable());
        assert_eq!(found, [vec![3], vec![1, 2], vec![4], vec![0]]);
    }

    #[test]
    fn a_long_chain_takes_no_stack() {
        let chain: Vec<Vec<usize>> = (0..100_000).map(|id| Vec::from_iter((id < 99_999).then_some(id + 1))).collect();
        assert_eq!(groups(&chain).len(), 100_000);
    }
}
