//! Which node takes up a sandbox that waits.
//!
//! Any may: taking up is one atomic step in the store. So that work spreads and stays near its repository, the
//! node with the most room takes it at once, among equals the project's home, and the others only after a
//! moment. What is known of the others is a few seconds old, which costs at most that moment.

use std::time::Duration;

use sunaba_types::{Node, NodeId, Role};

/// How long a node leaves a sandbox to a better one.
pub(crate) const COURTESY: Duration = Duration::from_millis(300);

/// Whether this node, with so many sandboxes of its own, is the one to take up a sandbox of this provider.
pub(crate) fn is_first_choice(
    nodes: &[Node],
    me: &NodeId,
    own_sandboxes: usize,
    provider: &str,
    home: Option<&NodeId>,
) -> bool {
    let rank = |node: &Node| {
        let id = &node.report.id;
        let mine = i64::try_from(own_sandboxes).unwrap_or(i64::MAX);
        let used = if id == me { mine } else { node.sandboxes };
        // Shares of what fits, in thousandths, so that unequal machines fill evenly.
        let share = used.saturating_mul(1000) / node.report.max_sandboxes.max(1);
        (share, home != Some(id), id.clone())
    };
    let able = nodes.iter().filter(|node| {
        node.is_up()
            && node.has_role(Role::Orchestrator)
            && node.report.providers.iter().any(|name| name == provider)
    });
    able.min_by_key(|node| rank(node)).is_none_or(|best| best.report.id == *me)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, sandboxes: i64, max_sandboxes: i64) -> Node {
        let mut node = crate::made::node(id);
        (node.sandboxes, node.report.max_sandboxes) = (sandboxes, max_sandboxes);
        node
    }

    #[test]
    fn room_comes_first_then_the_home() {
        let (a, b) = (NodeId::parse("a").unwrap(), NodeId::parse("b").unwrap());
        let first = |nodes: &[Node], me: &NodeId, own, home| is_first_choice(nodes, me, own, "local", home);
        let even = [node("a", 0, 10), node("b", 0, 10)];
        assert!(first(&even, &a, 0, None) && !first(&even, &b, 0, None), "someone has to be first");
        assert!(first(&even, &b, 0, Some(&b)) && !first(&even, &a, 0, Some(&b)));
        assert!(!first(&even, &b, 1, Some(&b)), "its own count is fresher than its row");
        let uneven = [node("a", 5, 100), node("b", 1, 10)];
        assert!(first(&uneven, &a, 5, Some(&b)), "5 of 100 is less than 1 of 10");
    }

    #[test]
    fn who_cannot_is_not_waited_for() {
        let b = NodeId::parse("b").unwrap();
        let mut nodes = [node("a", 0, 10), node("b", 9, 10)];
        assert!(!is_first_choice(&nodes, &b, 9, "local", None));
        nodes[0].silent_for = Duration::from_secs(60);
        assert!(is_first_choice(&nodes, &b, 9, "local", None), "a silent node");
        nodes[0].silent_for = Duration::ZERO;
        nodes[0].report.roles = vec![Role::Api];
        assert!(is_first_choice(&nodes, &b, 9, "local", None), "a node without the role");
        nodes[0] = node("a", 0, 10);
        nodes[0].report.providers = vec!["docker".into()];
        assert!(is_first_choice(&nodes, &b, 9, "local", None), "a node without the provider");
        assert!(is_first_choice(&[], &b, 9, "local", None), "before its own row is seen");
    }
}
