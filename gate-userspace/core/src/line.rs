//! First come, first served, with a way out from the middle.
//!
//! Several lines share one store of nodes, so that joining, leaving and moving between them allocates nothing once
//! the store has grown to the usual crowd. Leaving from the middle is constant time: a client that gives up must
//! not leave a hole that grows with every such client.

use slab::Slab;

/// The nodes of several lines.
pub(crate) struct Nodes<T>(Slab<Node<T>>);

struct Node<T> {
    value: T,
    before: Option<usize>,
    after: Option<usize>,
}

/// A place in a line: good until it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot(usize);

/// One line. It must be used with one and the same [`Nodes`].
#[derive(Default)]
pub(crate) struct Line {
    front: Option<usize>,
    back: Option<usize>,
    len: u32,
}

impl<T> Nodes<T> {
    pub(crate) fn new() -> Self {
        Self(Slab::new())
    }
}

impl Line {
    /// How many stand in it.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether nobody stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Who came first.
    pub(crate) fn front<'n, T>(&self, nodes: &'n Nodes<T>) -> Option<&'n T> {
        self.front.map(|index| &nodes.0[index].value)
    }

    /// Joins at the end.
    pub(crate) fn push_back<T>(&mut self, nodes: &mut Nodes<T>, value: T) -> Spot {
        let index = nodes.0.insert(Node { value, before: self.back, after: None });
        match self.back {
            Some(back) => nodes.0[back].after = Some(index),
            None => self.front = Some(index),
        }
        self.back = Some(index);
        self.len += 1;
        Spot(index)
    }

    /// Takes the first.
    pub(crate) fn pop_front<T>(&mut self, nodes: &mut Nodes<T>) -> Option<T> {
        self.front.map(|index| self.remove(nodes, Spot(index)))
    }

    /// Leaves, from wherever that is.
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, spot: Spot) -> T {
        let node = nodes.0.remove(spot.0);
        match node.before {
            Some(before) => nodes.0[before].after = node.after,
            None => self.front = node.after,
        }
        match node.after {
            Some(after) => nodes.0[after].before = node.before,
            None => self.back = node.before,
        }
        self.len -= 1;
        node.value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_lines_in_one_store_keep_their_order_whoever_leaves(steps in prop::collection::vec((0..2_usize, 0..4_u8, any::<prop::sample::Index>()), 1..200)) {
            let mut nodes = Nodes::new();
            let mut lines = [Line::default(), Line::default()];
            let mut model: [VecDeque<(Spot, u32)>; 2] = Default::default();
            for (name, (which, action, pick)) in (0..).zip(steps) {
                let (line, model) = (&mut lines[which], &mut model[which]);
                match action {
                    0 | 1 => model.push_back((line.push_back(&mut nodes, name), name)),
                    2 => prop_assert_eq!(line.pop_front(&mut nodes), model.pop_front().map(|(_, name)| name)),
                    _ if model.is_empty() => {}
                    _ => {
                        let (spot, name) = model.remove(pick.index(model.len())).unwrap();
                        prop_assert_eq!(line.remove(&mut nodes, spot), name);
                    }
                }
                prop_assert_eq!(line.len() as usize, model.len());
                prop_assert_eq!(line.front(&nodes), model.front().map(|(_, name)| name));
            }
        }
    }
}
