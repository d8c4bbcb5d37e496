//! Which parts of a graph lead back to themselves: what types hold each other.

/// Which nodes reach each other: Tarjan's strongly connected components, without recursion. What a component
/// leads to stands before it.
pub fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let (mut index, mut low) = (vec![NEW; edges.len()], vec![0; edges.len()]);
    let (mut on_stack, mut stack) = (vec![false; edges.len()], Vec::new());
    let (mut next, mut found) = (0, Vec::new());
    for root in 0..edges.len() {
        if index[root] != NEW {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some(&mut (node, ref mut edge)) = work.last_mut() {
            if index[node] == NEW {
                (index[node], low[node], on_stack[node]) = (next, next, true);
                next += 1;
                stack.push(node);
            }
            if let Some(&to) = edges[node].get(*edge) {
                *edge += 1;
                if index[to] == NEW {
                    work.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            work.pop();
            if let Some(&(above, _)) = work.last() {
                low[above] = low[above].min(low[node]);
            }
            if low[node] == index[node] {
                let start = stack.iter().rposition(|&n| n == node).unwrap_or(0);
                let component = stack.split_off(start);
                component.iter().for_each(|&n| on_stack[n] = false);
                found.push(component);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_led_to_stands_first() {
        let edges = vec![vec![1], vec![2], vec![1, 3], vec![], vec![0]];
        let mut found = components(&edges);
        found.iter_mut().for_each(|c| c.sort_unstable());
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4]]);
    }
}
