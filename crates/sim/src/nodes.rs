//! Nodes by number, and sets of them.

use std::fmt;
use std::str::FromStr;

/// The number of a node, below [`NodeSet::MOST`].
pub type Node = u32;

/// A set of nodes. As text: `0,3,8-11`, or `*` for all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(u128);

impl NodeSet {
    /// How many nodes there can be.
    pub const MOST: u32 = 128;
    /// No node.
    pub const EMPTY: NodeSet = NodeSet(0);
    /// Every node.
    pub const ALL: NodeSet = NodeSet(u128::MAX);

    /// Only `node`.
    pub const fn one(node: Node) -> NodeSet {
        assert!(node < NodeSet::MOST, "nodes are numbered below 128");
        NodeSet(1 << node)
    }

    /// The nodes numbered below `count`.
    pub const fn below(count: u32) -> NodeSet {
        if count >= NodeSet::MOST { NodeSet::ALL } else { NodeSet((1 << count) - 1) }
    }

    /// Whether `node` is in it.
    #[inline]
    pub const fn contains(self, node: Node) -> bool {
        node < NodeSet::MOST && self.0 >> node & 1 == 1
    }

    /// With `node`.
    pub const fn with(self, node: Node) -> NodeSet {
        NodeSet(self.0 | NodeSet::one(node).0)
    }

    /// What is here and not in `other`.
    pub const fn without(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }

    /// What is in both.
    pub const fn and(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }

    /// How many nodes are in it.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// It has no node.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its nodes, by number.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        (0..NodeSet::MOST).filter(move |&node| self.contains(node))
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> NodeSet {
        nodes.into_iter().fold(NodeSet::EMPTY, NodeSet::with)
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == NodeSet::ALL {
            return f.write_str("*");
        }
        let mut comma = "";
        let mut from = 0;
        while from < NodeSet::MOST {
            let run = (self.0 >> from).trailing_ones();
            match run {
                0 => {}
                1 => write!(f, "{comma}{from}")?,
                _ => write!(f, "{comma}{from}-{}", from + run - 1)?,
            }
            if run > 0 {
                comma = ",";
            }
            from += run + 1;
        }
        Ok(())
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromStr for NodeSet {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeSet, String> {
        if text == "*" {
            return Ok(NodeSet::ALL);
        }
        let number = |text: &str| {
            let node = text.parse::<Node>().ok().filter(|&node| node < NodeSet::MOST);
            node.ok_or_else(|| format!("{text:?} is no number of a node, which is 0 to 127"))
        };
        let mut set = NodeSet::EMPTY;
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            set = (number(first)?..=number(last)?).fold(set, NodeSet::with);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_round_trips(bits: u128) {
            for set in [NodeSet(bits), NodeSet(bits & bits >> 64), NodeSet(bits | bits << 1)] {
                prop_assert_eq!(set.to_string().parse(), Ok(set));
                prop_assert_eq!(set.iter().collect::<NodeSet>(), set);
                prop_assert_eq!(set.iter().count() as u32, set.len());
            }
        }
    }

    #[test]
    fn they_are_written_short() {
        let set: NodeSet = [0, 3, 8, 9, 10, 11, 127].into_iter().collect();
        assert_eq!(set.to_string(), "0,3,8-11,127");
        assert_eq!([NodeSet::EMPTY.to_string(), NodeSet::ALL.to_string()], ["", "*"]);
        assert!(["128", "1-", "a", "1,,2", "-1"].iter().all(|bad| bad.parse::<NodeSet>().is_err()));
    }
}
